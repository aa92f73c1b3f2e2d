import type { LongLine } from '#pipeline/lines';

/** What to start, as somebody configured it. */
export type ChildSettings = {
  command: string;
  args: readonly string[];
  /** All that it gets; nothing of ours is added. */
  env: Readonly<Record<string, string>>;
  cwd?: string;
};

/** A running MCP server that speaks over its standard input and output. */
export interface Child {
  /** What it says, line by line; ends with it. */
  readonly lines: AsyncIterable<Buffer | LongLine>;

  /** Resolves when it has ended, whoever ended it, with how: `ended with code 1: no such file`. */
  readonly ended: Promise<string>;

  /** Resolves when there is room for the next line. */
  write(line: Buffer): Promise<void>;

  /** Asks it to end, then makes it. Neither it nor what it started is left once resolved. */
  end(): Promise<void>;
}
