import type { Compilable, Kysely } from 'kysely';

import type { Schema } from './schema.ts';

/** Stands in a query for a value that is known when it is asked. */
class Blank {
  readonly place: number;
  constructor(place: number) {
    this.place = place;
  }
}

/**
 * A query that is put into words once, at its first use, and asked with other values each time: what every page
 * asks costs more to build than to answer. `build` gets a value for each of those that are given later, to be used
 * as a value and nothing else.
 */
export function compiledQuery<Values extends readonly (string | number)[], Row>(
  db: Kysely<Schema>,
  build: (...values: Values) => Compilable<Row>,
): (...values: Values) => Promise<Row[]> {
  let ask: ((values: Values) => Promise<Row[]>) | undefined;
  const compile = () => {
    const blanks = Array.from({ length: build.length }, (_, place) => new Blank(place));
    // The type of a query is of its values' types; that these are blanks shows at the latest in the next line.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const query = build(...(blanks as unknown as Values)).compile();
    return async (values: Values) => {
      const parameters = query.parameters.map((one) =>
        one instanceof Blank ? values[one.place] : one,
      );
      return (await db.executeQuery<Row>({ ...query, parameters })).rows;
    };
  };
  return (...values) => (ask ??= compile())(values);
}
