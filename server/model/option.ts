/** An option of a command: `--name VALUE`, or `LATCHKEY_NAME` in the environment. */
export interface Option {
  readonly name: string;
  /** The placeholder of the value in the help; flags have none. */
  readonly value?: string;
  /** May be given more than once, with one value each. */
  readonly repeated?: boolean;
  readonly required?: boolean;
  readonly fallback?: string;
  /** The default as the help describes it, if it depends on the installation. */
  readonly fallbackDoc?: string;
  readonly doc: string;
}
