import { printable } from 'latchkey-mcp/safe-text';

/** The command line is invalid; `hint` says what to type instead. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly hint: string;

  constructor(message: string, hint = 'latchkey help lists the commands', options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}

/** A problem in a configuration: file, key, description and remedy. Never contains the value. */
export type Problem = {
  /** Empty if the problem is not in a file. */
  source: string;
  key: string;
  problem: string;
  /** The remedy, if `problem` does not contain it. */
  hint?: string;
  /**
   * `other_program`: the entry is not ours, because it starts another program. `no_file`: no program of this user can read the
   * file. `unknown_name`: no file has an entry with the name that a command was given.
   */
  code?: 'other_program' | 'no_file' | 'unknown_name';
};

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

  /** Whether the entry starts another program, so that it is not ours. */
  get isOtherProgram(): boolean {
    return this.problems[0]?.code === 'other_program';
  }

  /** The remedy for the first problem; empty if `problem` contains it. */
  get hint(): string {
    return this.problems[0]?.hint ?? '';
  }

  /** Whether no connection has the name that a command was given, which is a usage error. */
  get isUnknownName(): boolean {
    return this.problems[0]?.code === 'unknown_name';
  }
}

/** Describes a file that cannot be parsed: `is not valid TOML`. Its name indicates the format. */
export function notValid(file: string): string {
  return `is not valid ${file.endsWith('.toml') ? 'TOML' : 'JSON'}`;
}
