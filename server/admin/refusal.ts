import type { z } from 'zod';

/** What is wrong with one field of an input. */
export interface FieldError {
  /** As the operation's input calls it; `upstream.url` for a member of a member, '' for the whole. */
  readonly field: string;
  /** Goes behind the field's name: `is not an https URL`. */
  readonly problem: string;
}

/** Why an operation was turned down; HTTP, pages and commands each have words of their own for it. */
export type AdministrationRefusalCode =
  /** It does not exist or belongs to another organization or person. Deliberately not distinguished. */
  | 'not_found'
  /** The actor sees it, and may not do that. */
  | 'forbidden'
  /** `fields` says what is wrong with which. */
  | 'invalid'
  /** It is right, and the state of things does not allow it. */
  | 'conflict'
  /** A page must ask for a sign-in first. */
  | 'proof_old';

/** An operation that is turned down. Message and fields may go out: they hold no secret and nothing of others. */
export class AdministrationRefusal extends Error {
  override readonly name = 'AdministrationRefusal';
  readonly code: AdministrationRefusalCode;
  readonly fields: readonly FieldError[];

  constructor(
    code: AdministrationRefusalCode,
    message: string,
    { fields = [], ...options }: ErrorOptions & { fields?: readonly FieldError[] } = {},
  ) {
    super(message, options);
    this.code = code;
    this.fields = fields;
  }
}

/** The refusal of one field. */
export function invalidField(field: string, problem: string): AdministrationRefusal {
  const fields = [{ field, problem }];
  return new AdministrationRefusal('invalid', `${field} ${problem}`, { fields });
}

/** The same words whether it never was or is another organization's. */
export function notFound(what: string): AdministrationRefusal {
  return new AdministrationRefusal('not_found', `there is no such ${what}`);
}

/** Whether the state of things did not allow something. */
export function isConflict(refusal: unknown): boolean {
  return refusal instanceof AdministrationRefusal && refusal.code === 'conflict';
}

/** What is wrong with a field, in words that go behind its name. */
export function problemOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.expected === 'int') return 'must be a whole number';
      return issue.input === undefined ? 'is missing' : `must be ${withArticle(issue.expected)}`;
    case 'too_small':
      return issue.origin === 'string' && Number(issue.minimum) === 1
        ? 'is empty'
        : bound('at least', issue.minimum, issue.origin);
    case 'too_big':
      return bound('at most', issue.maximum, issue.origin);
    case 'invalid_value':
      return `must be ${issue.values
        .map(String)
        .join(', ')
        .replace(/, ([^,]*)$/, ' or $1')}`;
    case 'invalid_union':
      return 'is not one of the forms that it may have';
    case 'unrecognized_keys':
      return 'is not known here';
    case 'custom':
    case 'invalid_format':
    case 'invalid_key':
    case 'invalid_element':
    case 'not_multiple_of':
      return issue.message;
  }
}

function withArticle(type: string): string {
  return `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}`;
}

function bound(words: 'at least' | 'at most', limit: number | bigint, origin: string): string {
  if (origin === 'string') return `must have ${words} ${limit} characters`;
  if (origin === 'array') return `must have ${words} ${limit} of them`;
  return `must be ${words} ${limit}`;
}

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
