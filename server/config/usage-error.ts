/** An error that is reported in one line with a hint. */
class ReportedError extends Error {
  readonly hint: string | undefined;

  constructor(message: string, hint?: string, options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}

/** The command line is wrong. Exit code 2. */
export class UsageError extends ReportedError {
  override readonly name = 'UsageError';
}

/** The command line is right but the command failed. Exit code 1. */
export class CommandError extends ReportedError {
  override readonly name = 'CommandError';
}
