/** Keeps what one MCP server last answered to one account, for the next time it cannot be asked. */
export interface KeptAnswers {
  /** The bytes last kept for `question`; `undefined` when there are none, or none that can be read. */
  read(question: string): Promise<Buffer | undefined>;

  /**
   * Replaces what was kept for `question`, whole or not at all. What is too large, or looks as if it
   * held a secret, is not kept; a disk that takes nothing is not an error.
   */
  keep(question: string, answer: Buffer): Promise<void>;

  /** Forgets every answer of that server, also to other accounts: they are kept again when it is asked. */
  forget(): Promise<void>;
}
