import type { z } from 'zod';

/** A value as it is stored: read-only, and possibly undefined where a view has null. */
type Stored<Value> = Value extends null
  ? null | undefined
  : Value extends readonly (infer Item)[]
    ? readonly Item[]
    : Value;

/** The input of `viewOf`: each field of the view. A field that can be null may also be undefined. */
type Viewed<View> = {
  readonly [Field in keyof View as null extends View[Field] ? never : Field]: Stored<View[Field]>;
} & {
  readonly [Field in keyof View as null extends View[Field] ? Field : never]?: Stored<View[Field]>;
};

/**
 * Picks the fields of a view from a record and ignores its other fields; undefined becomes null. Only the top level is picked: a nested
 * object goes out whole, so map it first if it has fields that the view must not show.
 *
 * The record must have every field, also those that can be null: otherwise a new field of the schema would always be null. The compiler
 * reports a missing one as "not assignable to never".
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
