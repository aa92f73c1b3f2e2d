import type { Compilable, CompiledQuery } from 'kysely';

import { type Awaitable, whenReady } from '#model/awaitable';
import { type KeptQuery, withValues } from './kept-query.ts';
import { EpochAdapter } from './postgres/epoch-adapter.ts';
import { ImmediateAdapter } from './sqlite/immediate-adapter.ts';
import type { Db } from './transaction.ts';

type Value = string | number;

/** Represents a value while a query is built: the value at `position`, or the element `index` of the list there. */
class Placeholder {
  readonly position: number;
  readonly index: number | undefined;
  constructor(position: number, index?: number) {
    this.position = position;
    this.index = index;
  }
}

const maxCompiled = 100;

type Values = readonly (Value | readonly Value[])[];
type Build<Given extends Values, Row> = (db: Db, ...values: Given) => Compilable<Row>;

/**
 * A query that is built once for each database, at its first use, and executed with new values each time: building the
 * queries of a page takes longer than executing them. A query with lists is built once for each combination of their
 * lengths. `build` receives a placeholder for each value and must use it only as a value of the query.
 */
export function preparedQuery<Given extends Values, Row>(
  build: Build<Given, Row>,
): (db: Db, ...values: Given) => Promise<Row[]> {
  const compiled = compiledOnce(build);
  return async (db, ...values) => (await db.executeQuery(compiled(db, values))).rows;
}

/**
 * Like `preparedQuery`, but on SQLite, outside of transactions, it returns the rows synchronously. It does not wait for earlier
 * writes, so the caller must have awaited those.
 */
export function immediateQuery<Given extends Values, Row>(
  build: Build<Given, Row>,
): (db: Db, ...values: Given) => Awaitable<Row[]> {
  const compiled = compiledOnce(build);
  return (db, ...values) => {
    const query = compiled(db, values);
    const { adapter } = db.getExecutor();
    const rows =
      adapter instanceof ImmediateAdapter
        ? adapter.readNow(query.sql, query.parameters)
        : undefined;
    // The rows come from `query`, whose type is `Row`.
    return (rows as Row[] | undefined) ?? db.executeQuery(query).then((result) => result.rows);
  };
}

/**
 * Answers a query whose tables change the epoch of PostgreSQL. There, outside of transactions, the answer is kept as long as the epoch,
 * which is read each time, is the same. On SQLite it is an immediate query. The caller must not change the answer.
 */
export function keptQuery<Answer extends object, Row>(
  query: KeptQuery<Answer, Row>,
): (db: Db, values: Readonly<Record<string, string>>) => Awaitable<Answer | undefined> {
  const rows = immediateQuery((db, ...given: string[]) => {
    const values = Object.fromEntries(
      query.parameters.map((name, at) => [name, given[at] ?? null]),
    );
    return { compile: () => withValues(query, values).compile(db) };
  });
  // On SQLite, an immediate query returns the same row object until something is written.
  const answers = new WeakMap<object, Answer | undefined>();
  const answerOf = (row: Row & object) => {
    if (!answers.has(row)) answers.set(row, query.read(row));
    return answers.get(row);
  };
  return (db, values) => {
    const { adapter } = db.getExecutor();
    if (adapter instanceof EpochAdapter && adapter.read && !db.isTransaction)
      return adapter.read(query, values);
    const given = query.parameters.map((name) => values[name] ?? '');
    return whenReady(rows(db, ...given), ([row]) => row && answerOf(row));
  };
}

/**
 * Calls `act`, whose immediate queries check only once, at the first of them, whether any process has written. `act` must not
 * write before it returns.
 */
export function readTogether(db: Db, act: () => void): void {
  const { adapter } = db.getExecutor();
  if (adapter instanceof ImmediateAdapter) adapter.together(act);
  else act();
}

function compiledOnce<Given extends Values, Row>(build: Build<Given, Row>) {
  const ofDatabases = new WeakMap<object, Map<string, CompiledQuery<Row>>>();
  return (db: Db, values: Given): CompiledQuery<Row> => {
    const { adapter } = db.getExecutor();
    const compiled = ofDatabases.get(adapter) ?? new Map<string, CompiledQuery<Row>>();
    ofDatabases.set(adapter, compiled);
    const lengths = lengthsOf(values);
    let query = compiled.get(lengths);
    if (!query) {
      if (compiled.size >= maxCompiled) compiled.clear();
      const placeholders = values.map((value, position) =>
        isList(value)
          ? value.map((_, index) => new Placeholder(position, index))
          : new Placeholder(position),
      );
      // `build` must see the types of the values. The placeholders are replaced before the query is executed.
      query = build(db, ...(placeholders as unknown as Given)).compile();
      compiled.set(lengths, query);
    }
    const parameters = query.parameters.map((one) =>
      one instanceof Placeholder ? valueOf(one, values) : one,
    );
    return { ...query, parameters };
  };
}

function valueOf({ position, index }: Placeholder, values: Values) {
  const value = values[position];
  return isList(value) ? value[index ?? 0] : value;
}

/** The lengths of the lists among the values. The SQL text depends on nothing else. */
function lengthsOf(values: Values): string {
  let lengths = '';
  for (const value of values) if (isList(value)) lengths += `${value.length} `;
  return lengths;
}

function isList(value: Value | readonly Value[] | undefined): value is readonly Value[] {
  return Array.isArray(value);
}
