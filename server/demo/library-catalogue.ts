import { DatabaseSync } from 'node:sqlite';
import { libraryTables } from './library-tables.ts';

const sampleRows = 3;

export interface TableSummary {
  name: string;
  about: string;
  rowCount: number;
}

export interface TableDescription extends TableSummary {
  columns: { name: string; type: string; nullable: boolean; primaryKey: boolean }[];
  foreignKeys: { column: string; references: string }[];
  sample: Record<string, string | number | null>[];
}

/** What the sample library holds, asked with our own SQL only. */
export class LibraryCatalogue {
  readonly #database: DatabaseSync;

  constructor(file: string) {
    this.#database = new DatabaseSync(file, { readOnly: true });
  }

  tables(): TableSummary[] {
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

  #rows(sql: string): Record<string, string | number | null>[] {
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
