/** The command line is wrong. Reported in one line with a hint; exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly hint: string | undefined;

  constructor(message: string, hint?: string, options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}

/** The command line is right but the command failed. Reported in one line with a hint; exit code 1. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly hint: string | undefined;

  constructor(message: string, hint?: string, options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}
