import { closeSync, openSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { makeDataFolder } from '#config/data-folder';
import { libraryIndexes, libraryTables } from './catalogue.ts';
import * as words from './library-words.ts';

const version = 1;

/**
 * Returns the path of the sample database, which only this user can read. Creates the database when it
 * is missing or of another version; it is renamed into place, so a reader sees all of it or nothing.
 */
export function libraryFile(dataDir: string): string {
  const file = join(dataDir, 'demo-library.db');
  if (versionOf(file) === version) return file;
  makeDataFolder(dataDir);
  const draft = `${file}.${crypto.randomUUID()}`;
  try {
    closeSync(openSync(draft, 'wx', 0o600));
    fill(draft);
    renameSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
  return file;
}

function versionOf(file: string): number | undefined {
  try {
    const database = new DatabaseSync(file, { readOnly: true });
    try {
      return Number(database.prepare('pragma user_version').get()?.['user_version']);
    } finally {
      database.close();
    }
  } catch {
    // Missing, or not a database: it is created again in both cases.
    return undefined;
  }
}

function fill(file: string): void {
  const database = new DatabaseSync(file, { enableForeignKeyConstraints: true });
  try {
    database.exec('pragma journal_mode = off; pragma synchronous = off; begin');
    for (const { sql } of Object.values(libraryTables)) database.exec(sql);
    const inserts = new Map<string, ReturnType<DatabaseSync['prepare']>>();
    for (const { table, values } of libraryRows()) {
      let insert = inserts.get(table);
      if (!insert) {
        insert = database.prepare(`insert into ${table} values (${values.map(() => '?').join()})`);
        inserts.set(table, insert);
      }
      insert.run(...values);
    }
    for (const sql of libraryIndexes) database.exec(sql);
    database.exec(`pragma user_version = ${version}; commit; analyze`);
  } finally {
    database.close();
  }
}

type LibraryRow = { table: keyof typeof libraryTables; values: (string | number | null)[] };

const counts = { authors: 150, books: 800, copies: 1500, members: 400 };
const dayMs = 86_400_000;
const opening = Date.parse('2022-01-03') / dayMs;
/** The last day in the data. */
const today = Date.parse('2026-10-30') / dayMs;
const loanDays = 21;

/** Every row of the sample library, the same each time, none before a row it refers to. */
function* libraryRows(): Generator<LibraryRow, void, undefined> {
  const random = seededRandom(1931);
  for (const [index, { name, street, opened }] of words.branches.entries())
    yield { table: 'branches', values: [index + 1, name, street, opened] };
  yield* authors(random);
  yield* books(random);
  yield* members(random);
  yield* copiesAndLoans(random);
}

function* authors(random: SeededRandom): Generator<LibraryRow, void, undefined> {
  for (let id = 1; id <= counts.authors; id++) {
    const name = `${random.pick(words.firstNames)} ${random.pick(words.lastNames)}`;
    const born = random.between(1880, 1990);
    yield { table: 'authors', values: [id, name, random.pick(words.countries), born] };
  }
}

function* books(random: SeededRandom): Generator<LibraryRow, void, undefined> {
  for (let id = 1; id <= counts.books; id++) {
    const author = random.between(1, counts.authors);
    const [genre, language] = [random.pick(words.genres), random.pick(words.languages)];
    const [published, pages] = [random.between(1950, 2025), random.between(64, 720)];
    const values = [id, title(random), author, genre, language, published, pages, isbn(id)];
    yield { table: 'books', values };
  }
}

function title(random: SeededRandom): string {
  const [adjective, noun] = [random.pick(words.adjectives), random.pick(words.nouns)];
  const [other, place] = [random.pick(words.nouns), random.pick(words.places)];
  return random.pick([
    `The ${adjective} ${noun}`,
    `The ${noun} of ${place}`,
    `${adjective} ${noun}, ${adjective} ${other}`,
    `A ${noun} in ${place}`,
    `The ${noun} and the ${other}`,
    `Letters from ${place}`,
    `The ${adjective} ${noun} of ${place}`,
  ]);
}

/** An ISBN-13 with its check digit. ISO 2108 */
function isbn(id: number): string {
  const digits = `97800${String(id * 7919).padStart(7, '0')}`;
  const sum = Array.from(digits).reduce(
    (total, digit, at) => total + Number(digit) * (at % 2 ? 3 : 1),
    0,
  );
  return `${digits}${(10 - (sum % 10)) % 10}`;
}

function* members(random: SeededRandom): Generator<LibraryRow, void, undefined> {
  for (let id = 1; id <= counts.members; id++) {
    const [first, last] = [random.pick(words.firstNames), random.pick(words.lastNames)];
    const email = `${first}.${last}.${id}@example.org`.toLowerCase();
    const branch = random.between(1, words.branches.length);
    const joined = date(random.between(opening - 3000, opening));
    yield { table: 'members', values: [id, `${first} ${last}`, email, branch, joined] };
  }
}

/** A copy is lent, comes back (sometimes late, or never), and waits on its shelf: never two loans at a time. */
function* copiesAndLoans(random: SeededRandom): Generator<LibraryRow, void, undefined> {
  let loan = 0;
  for (let id = 1; id <= counts.copies; id++) {
    const book = id <= counts.books ? id : random.between(1, counts.books);
    const branch = random.between(1, words.branches.length);
    const acquired = random.between(opening - 2000, opening + 1200);
    yield { table: 'copies', values: [id, book, branch, date(acquired)] };
    let day = Math.max(opening, acquired) + random.between(1, 400);
    while (day <= today) {
      const lost = random.between(1, 60) === 1;
      const back = lost ? Infinity : day + random.between(2, loanDays + 12);
      const member = random.between(1, counts.members);
      const returned = back <= today ? date(back) : null;
      const values = [++loan, id, member, date(day), date(day + loanDays), returned];
      yield { table: 'loans', values };
      day = back + random.between(1, 500);
    }
  }
}

function date(day: number): string {
  return new Date(day * dayMs).toISOString().slice(0, 10);
}

/** Random numbers that are the same on every host and day. */
interface SeededRandom {
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number;
  pick<Item>(items: readonly [Item, ...Item[]]): Item;
}

/** mulberry32: small, fast, and nothing depends on its quality. */
function seededRandom(seed: number): SeededRandom {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  return {
    between,
    pick: (items) => items[between(0, items.length - 1)] ?? items[0],
  };
}
