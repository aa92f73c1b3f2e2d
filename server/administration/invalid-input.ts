import type { z } from 'zod';

import { AdministrationRefusal } from './administration-refusal.ts';
import { problemOf } from './problem-of.ts';

/** The refusal of an input, naming each field that is wrong. */
export function invalidInput(error: z.ZodError): AdministrationRefusal {
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
  return new AdministrationRefusal('invalid', words, { fields });
}
