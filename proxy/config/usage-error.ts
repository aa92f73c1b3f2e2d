/** The command line makes no sense; `hint` says what would. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly hint: string;

  constructor(
    message: string,
    hint = 'latchkey --help shows what there is',
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.hint = hint;
  }
}
