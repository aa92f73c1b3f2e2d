import type { Compilable, CompiledQuery } from 'kysely';

import type { Db } from './transaction.ts';

type Value = string | number;

/** Stands in a query for a value that is known when it is asked: the one at `place`, or of the list there. */
class Blank {
  readonly place: number;
  readonly index: number | undefined;
  constructor(place: number, index?: number) {
    this.place = place;
    this.index = index;
  }
}

const mostKept = 100;

/**
 * A query that is built once for each database, at its first use, and executed with other values each time: what every
 * page asks costs more to build than to answer. With lists, it is built once for each length. `build` gets a placeholder
 * for each value, to be used as a value and nothing else.
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
      if (compiled.size >= mostKept) compiled.clear();
      const blanks = values.map((value, place) =>
        isList(value) ? value.map((_, index) => new Blank(place, index)) : new Blank(place),
      );
      // The type of a query is of its values' types; that these are blanks shows at the latest in the next line.
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion
      query = build(db, ...(blanks as unknown as Values)).compile();
      compiled.set(lengths, query);
    }
    const parameters = query.parameters.map((one) =>
      one instanceof Blank ? filled(one, values) : one,
    );
    return (await db.executeQuery<Row>({ ...query, parameters })).rows;
  };
}

function filled({ place, index }: Blank, values: readonly (Value | readonly Value[])[]) {
  const value = values[place];
  return isList(value) ? value[index ?? 0] : value;
}

/** The lengths of the lists, which are what the words of a query hang on. */
function lengthsOf(values: readonly (Value | readonly Value[])[]): string {
  let lengths = '';
  for (const value of values) if (isList(value)) lengths += `${value.length} `;
  return lengths;
}

function isList(value: Value | readonly Value[] | undefined): value is readonly Value[] {
  return Array.isArray(value);
}
