/** What lets a caller come back, whatever becomes of the one token it came with: a key, or a client and its grant. */
export interface Standing {
  /** Tells it from what else may let the same caller in. */
  readonly name: string;
  /** Whether it lets anybody in now. */
  readonly stands: () => Promise<boolean>;
}
