import { printable } from '#log/log';

/** The command line makes no sense; `hint` says what would. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly hint: string;

  constructor(message: string, hint = 'latchkey help lists the commands', options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}

/** One thing wrong in a configuration: where, which key, what and what to do. Never its value. */
export type Problem = {
  /** Empty where no file is at fault. */
  source: string;
  key: string;
  problem: string;
  /**
   * `other_program`: the entry is not ours, as it starts another program. `no_file`: what is there can be read by no
   * program of this user.
   */
  code?: 'other_program' | 'no_file';
};

/** Everything that is wrong in a configuration, at once. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(
      problems
        .map(({ source, key, problem }) => [source, key, problem].filter(Boolean).join(': '))
        .map(printable)
        .join('\n'),
    );
    this.problems = problems;
  }

  /** Whether the entry starts another program, so that it is none of ours. */
  get isOtherProgram(): boolean {
    return this.problems[0]?.code === 'other_program';
  }
}

/** `is not valid TOML`: the words for a file that cannot be parsed. Its name tells the format. */
export function notValid(file: string): string {
  return `is not valid ${file.endsWith('.toml') ? 'TOML' : 'JSON'}`;
}
