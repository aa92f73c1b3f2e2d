import type { z } from 'zod';

import { AdministrationRefusal } from './administration-refusal.ts';
import { problemOf } from './problem-of.ts';

/**
 * An input as its schema makes it.
 *
 * @throws {AdministrationRefusal} `invalid`, naming each field that is wrong
 */
export function checkedInput<Schema extends z.ZodType>(
  schema: Schema,
  input: object,
): z.output<Schema> {
  // Without the input, a problem cannot tell what is of another type from what is not there.
  const { success, data, error } = schema.safeParse(input, { reportInput: true });
  if (success) return data;
  const fields = error.issues.flatMap((issue) => {
    const field = issue.path.join('.');
    if (issue.code !== 'unrecognized_keys') return { field, problem: problemOf(issue) };
    return issue.keys.map((key) => ({
      field: [...issue.path, key].join('.'),
      problem: 'is not known here',
    }));
  });
  const [first] = fields;
  const words = first ? `${first.field} ${first.problem}`.trim() : 'the input is not understood';
  throw new AdministrationRefusal('invalid', words, { fields });
}
