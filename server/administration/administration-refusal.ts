/** What is wrong with one field of an input. */
export interface FieldError {
  /** As the operation's input calls it; `upstream.url` for a member of a member, '' for the whole. */
  readonly field: string;
  /** Goes behind the field's name: `is not an https URL`. */
  readonly problem: string;
}

/** Why an operation was turned down; HTTP, pages and commands each have words of their own for it. */
export type AdministrationRefusalCode =
  /** There is no such thing, or it is somebody else's: it is not said which. */
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
