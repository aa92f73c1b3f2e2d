import type { Compilable, CompiledQuery } from 'kysely';

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

/**
 * A query that is built once for each database, at its first use, and executed with new values each time: building the
 * queries of a page takes longer than executing them. A query with lists is built once for each combination of their
 * lengths. `build` receives a placeholder for each value and must use it only as a value of the query.
 */
export function preparedQuery<Values extends readonly (Value | readonly Value[])[], Row>(
  build: (db: Db, ...values: Values) => Compilable<Row>,
): (db: Db, ...values: Values) => Promise<Row[]> {
  const ofDatabases = new WeakMap<object, Map<string, CompiledQuery<Row>>>();
  return async (db, ...values) => {
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
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion
      query = build(db, ...(placeholders as unknown as Values)).compile();
      compiled.set(lengths, query);
    }
    const parameters = query.parameters.map((one) =>
      one instanceof Placeholder ? valueOf(one, values) : one,
    );
    return (await db.executeQuery<Row>({ ...query, parameters })).rows;
  };
}

function valueOf({ position, index }: Placeholder, values: readonly (Value | readonly Value[])[]) {
  const value = values[position];
  return isList(value) ? value[index ?? 0] : value;
}

/** The lengths of the lists among the values. The SQL text depends on nothing else. */
function lengthsOf(values: readonly (Value | readonly Value[])[]): string {
  let lengths = '';
  for (const value of values) if (isList(value)) lengths += `${value.length} `;
  return lengths;
}

function isList(value: Value | readonly Value[] | undefined): value is readonly Value[] {
  return Array.isArray(value);
}
