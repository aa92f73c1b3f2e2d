import type { z } from 'zod';

/** A problem with one field of an input. */
export interface FieldError {
  /** The name of the field in the operation's input; `upstream.url` for a nested one, '' for the input as a whole. */
  readonly field: string;
  /** A predicate whose subject is the field: `is not an https URL`. */
  readonly problem: string;
}

/** Why an operation was refused. The admin API, pages and commands each map it to their own texts. */
export type AdministrationRefusalCode =
  /** The resource does not exist or belongs to another organization or person. Deliberately not distinguished. */
  | 'not_found'
  /** The actor may see the resource but lacks the permission. */
  | 'forbidden'
  /** The input is invalid; `fields` contains the problems. */
  | 'invalid'
  /** The input is valid, but the current state does not allow the operation. */
  | 'conflict'
  /** The operation requires a recent sign-in. */
  | 'proof_old'
  /** The session or token of the actor has ended. */
  | 'signed_out';

/** A refused operation. Message and fields are public: they contain no secrets and nothing about other organizations. */
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

export function invalidField(field: string, problem: string): AdministrationRefusal {
  const fields = [{ field, problem }];
  return new AdministrationRefusal('invalid', `${field} ${problem}`, { fields });
}

/** The same refusal whether the resource never existed or belongs to another organization. */
export function notFound(what: string): AdministrationRefusal {
  return new AdministrationRefusal('not_found', `${what} not found`);
}

/** The refusal of an operation that the current state does not allow. */
export function conflict(why: string): AdministrationRefusal {
  return new AdministrationRefusal('conflict', why);
}

/** The refusal for an actor who may see the resource but lacks the permission. */
export function forbidden(why: string): AdministrationRefusal {
  return new AdministrationRefusal('forbidden', why);
}

/** Whether an error is a refusal because of the current state. */
export function isConflict(refusal: unknown): boolean {
  return refusal instanceof AdministrationRefusal && refusal.code === 'conflict';
}

/** The problem with a field: a predicate whose subject is the field. */
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
      return 'has an invalid form';
    case 'unrecognized_keys':
      return 'is unknown';
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
  if (origin === 'array')
    return `must contain ${words} ${limit} ${Number(limit) === 1 ? 'item' : 'items'}`;
  return `must be ${words} ${limit}`;
}

/**
 * Validates an input and returns the output of its schema.
 *
 * @throws {AdministrationRefusal} `invalid`, naming each field that is wrong
 */
export function checkedInput<Schema extends z.ZodType>(
  schema: Schema,
  input: object,
): z.output<Schema> {
  // Without the reported input, a wrong type and a missing field cannot be distinguished.
  const { success, data, error } = schema.safeParse(input, { reportInput: true });
  if (success) return data;
  const fields = error.issues.flatMap((issue) => {
    const field = issue.path.join('.');
    if (issue.code !== 'unrecognized_keys') return { field, problem: problemOf(issue) };
    return issue.keys.map((key) => ({
      field: [...issue.path, key].join('.'),
      problem: 'is unknown',
    }));
  });
  const [first] = fields;
  const words = first ? `${first.field} ${first.problem}`.trim() : 'the input is invalid';
  throw new AdministrationRefusal('invalid', words, { fields });
}
