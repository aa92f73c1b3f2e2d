/** The kinds of errors that SCIM names. RFC 7644 §3.12, table 9 */
export type ScimErrorType =
  | 'invalidFilter'
  | 'tooMany'
  | 'uniqueness'
  | 'mutability'
  | 'invalidSyntax'
  | 'invalidPath'
  | 'noTarget'
  | 'invalidValue';

/** A refused request of a directory. The detail is public and contains no secret. */
export class ScimError extends Error {
  override readonly name = 'ScimError';
  readonly status: number;
  readonly scimType: ScimErrorType | undefined;
  /** When to try again, in seconds. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    status: number,
    detail: string,
    {
      scimType,
      retryAfterSeconds,
      ...options
    }: ErrorOptions & { scimType?: ScimErrorType; retryAfterSeconds?: number } = {},
  ) {
    super(detail, options);
    this.status = status;
    this.scimType = scimType;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** A request that conflicts with the state of the organization. */
export function conflict(scimType: ScimErrorType, detail: string): ScimError {
  return new ScimError(409, detail, { scimType });
}

/** A request that SCIM does not allow. */
export function badRequest(scimType: ScimErrorType, detail: string): ScimError {
  return new ScimError(400, detail, { scimType });
}
