/** What the door rejects with: words for a person, with the remedy. Never with a secret. */
export class AccountsError extends Error {
  override readonly name = 'AccountsError';
  /** The kind of failure, as the error behind it says: `refused`, `unreachable`, `locked`, … */
  readonly code: string;
  /** What to do next; empty when there is nothing. */
  readonly hint: string;

  constructor(code: string, message: string, hint: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.hint = hint;
  }
}
