import { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { queryValue, type QueryValue } from './query-child.ts';

/** The sample library's tables, in the order in which they refer to one another. */
export const libraryTables = {
  branches: {
    about: 'The five buildings of the library',
    sql: `create table branches (
      id integer primary key,
      name text not null unique,
      street text not null,
      opened_on text not null
    ) strict`,
  },
  authors: {
    about: 'Who wrote the books',
    sql: `create table authors (
      id integer primary key,
      name text not null,
      country text not null,
      born integer not null
    ) strict`,
  },
  books: {
    about: 'Titles that the library owns, one row each regardless of the number of copies',
    sql: `create table books (
      id integer primary key,
      title text not null,
      author_id integer not null references authors (id),
      genre text not null,
      language text not null,
      published integer not null,
      pages integer not null,
      isbn text not null unique
    ) strict`,
  },
  copies: {
    about: 'The copies on the shelves; each belongs to one book and one branch',
    sql: `create table copies (
      id integer primary key,
      book_id integer not null references books (id),
      branch_id integer not null references branches (id),
      acquired_on text not null
    ) strict`,
  },
  members: {
    about: 'People who may borrow',
    sql: `create table members (
      id integer primary key,
      name text not null,
      email text not null unique,
      branch_id integer not null references branches (id),
      joined_on text not null
    ) strict`,
  },
  loans: {
    about: 'Who borrowed which copy and when; returned_on is null while it is out',
    sql: `create table loans (
      id integer primary key,
      copy_id integer not null references copies (id),
      member_id integer not null references members (id),
      borrowed_on text not null,
      due_on text not null,
      returned_on text
    ) strict`,
  },
} as const;

export const libraryIndexes = [
  'create index books_by_author on books (author_id)',
  'create index copies_by_book on copies (book_id)',
  'create index loans_by_copy on loans (copy_id)',
  'create index loans_by_member on loans (member_id)',
  'create index loans_out on loans (due_on) where returned_on is null',
] as const;

const sampleRows = 3;

export const tableSummary = z.object({
  name: z.string(),
  about: z.string(),
  rowCount: z.number().int(),
});

export const tableDescription = tableSummary.extend({
  columns: z.array(
    z.object({
      name: z.string(),
      type: z.string(),
      nullable: z.boolean(),
      primaryKey: z.boolean(),
    }),
  ),
  foreignKeys: z.array(z.object({ column: z.string(), references: z.string() })),
  sample: z.array(z.record(z.string(), queryValue)),
});

export type TableDescription = z.infer<typeof tableDescription>;

/** Describes the sample library's tables. Runs only SQL of our own. */
export class LibraryCatalogue {
  readonly #database: DatabaseSync;

  constructor(file: string) {
    this.#database = new DatabaseSync(file, { readOnly: true });
  }

  tables(): z.infer<typeof tableSummary>[] {
    return Object.entries(libraryTables).map(([name, { about }]) => ({
      name,
      about,
      rowCount: Number(this.#rows(`select count(*) as n from ${name}`)[0]?.['n']),
    }));
  }

  /** `undefined` when there is no such table. */
  table(name: string): TableDescription | undefined {
    const summary = this.tables().find((table) => table.name === name);
    if (!summary) return undefined;
    const columns = this.#rows(`pragma table_info(${summary.name})`).map((column) => ({
      name: String(column['name']),
      type: String(column['type']).toLowerCase(),
      nullable: column['notnull'] === 0 && column['pk'] === 0,
      primaryKey: column['pk'] !== 0,
    }));
    const foreignKeys = this.#rows(`pragma foreign_key_list(${summary.name})`).map((key) => ({
      column: String(key['from']),
      references: `${String(key['table'])}.${String(key['to'])}`,
    }));
    const sample = this.#rows(`select * from ${summary.name} order by id limit ${sampleRows}`);
    return { ...summary, columns, foreignKeys, sample };
  }

  close(): void {
    this.#database.close();
  }

  #rows(sql: string): Record<string, QueryValue>[] {
    return this.#database
      .prepare(sql)
      .all()
      .map((row) =>
        Object.fromEntries(
          Object.entries(row).map(([name, value]) => [
            name,
            typeof value === 'string' || typeof value === 'number' ? value : null,
          ]),
        ),
      );
  }
}
