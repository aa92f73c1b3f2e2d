import * as words from './library-words.ts';
import type { libraryTables } from './library-tables.ts';
import { seededRandom } from './seeded-random.ts';
import type { SeededRandom } from './seeded-random.ts';

export type LibraryRow = { table: keyof typeof libraryTables; values: (string | number | null)[] };

const counts = { authors: 150, books: 800, copies: 1500, members: 400 };
const dayMs = 86_400_000;
const opening = Date.parse('2022-01-03') / dayMs;
/** The day the library's books are closed for the sample: nothing is dated later. */
const today = Date.parse('2026-10-30') / dayMs;
const loanDays = 21;

/** Every row of the sample library, the same each time, none before a row it refers to. */
export function* libraryRows(): Generator<LibraryRow, void, undefined> {
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

/** A copy is lent, comes back, at times late or never, and waits on its shelf: never two loans at a time. */
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
