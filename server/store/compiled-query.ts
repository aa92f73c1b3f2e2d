import type { Compilable, Kysely } from 'kysely';

import type { Schema } from './schema.ts';

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
 * A query that is put into words once, at its first use, and asked with other values each time: what every page
 * asks costs more to build than to answer. With lists, once for each length. `build` gets a value for each of those
 * that are given later, to be used as a value and nothing else.
 */
export function compiledQuery<Values extends readonly (Value | readonly Value[])[], Row>(
  db: Kysely<Schema>,
  build: (...values: Values) => Compilable<Row>,
): (...values: Values) => Promise<Row[]> {
  const asks = new Map<string, (values: Values) => Promise<Row[]>>();
  const compile = (values: Values) => {
    const blanks = values.map((value, place) =>
      isList(value) ? value.map((_, index) => new Blank(place, index)) : new Blank(place),
    );
    // The type of a query is of its values' types; that these are blanks shows at the latest in the next line.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const query = build(...(blanks as unknown as Values)).compile();
    return async (of: Values) => {
      const parameters = query.parameters.map((one) =>
        one instanceof Blank ? filled(one, of) : one,
      );
      return (await db.executeQuery<Row>({ ...query, parameters })).rows;
    };
  };
  return (...values) => {
    const lengths = lengthsOf(values);
    let ask = asks.get(lengths);
    if (!ask) {
      if (asks.size >= mostKept) asks.clear();
      ask = compile(values);
      asks.set(lengths, ask);
    }
    return ask(values);
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
