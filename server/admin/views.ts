import type { z } from 'zod';

/** A value as it is stored: read-only, and possibly undefined where a view has null. */
type Stored<Value> = Value extends null
  ? null | undefined
  : Value extends readonly (infer Item)[]
    ? readonly Item[]
    : Value;

/** What a view is made of: all its fields. Those that can be null may be optional. */
type Viewed<View> = {
  readonly [Field in keyof View as null extends View[Field] ? never : Field]: Stored<View[Field]>;
} & {
  readonly [Field in keyof View as null extends View[Field] ? Field : never]?: Stored<View[Field]>;
};

/**
 * The view of a record: the fields of its schema and nothing else of the record, with null for what is undefined. The compiler
 * refuses a record that does not know one of the fields.
 */
export function viewOf<View, Row extends Viewed<View>>(
  { shape }: z.ZodObject & z.ZodType<View>,
  record: Row & (keyof View extends keyof Row ? unknown : never),
): View {
  const fields = Object.keys(shape).map((field) => {
    const value: unknown = Reflect.get(record, field);
    return [field, Array.isArray(value) ? [...value] : (value ?? null)] as const;
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the fields of the schema, each of its type
  return Object.fromEntries(fields) as View;
}
