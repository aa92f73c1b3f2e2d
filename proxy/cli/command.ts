import type { OptionName, OptionTexts } from '#config/options';
import type { CommandHost } from './command-host.ts';

/** A flag of a single command, such as `--json`. With `value`, the flag takes a value. */
export type Flag = {
  /** The placeholder of the value in the help; none for a switch. */
  value?: string;
  /** May be given more than once. */
  repeated?: boolean;
  /** Empty if `idle` explains why the flag has no effect. */
  doc: string;
  idle?: string;
};

/** The words that were typed after a command's name. */
export type CommandInput = {
  operands: readonly string[];
  /** The values of each flag that was given; a switch has one empty value. */
  flags: ReadonlyMap<string, readonly string[]>;
  options: OptionTexts;
};

/** One command of `latchkey`. The code behind it is loaded when it runs, because `connect` starts many times a day. */
export type Command = {
  name: string;
  /** For programs, not for people: the help does not list it. */
  hidden?: true;
  /** Commands named by a second word; their names are both words: `agent login`. */
  subcommands?: readonly Command[];
  /** Its operands, as the help shows them: `NAME|URL`. Those in brackets may be left out. */
  operands: string;
  /** One line, lowercase. */
  summary: string;
  /** The explanation in its own help. */
  about: string;
  flags: Readonly<Record<string, Flag>>;
  /** The options that its own help lists. */
  options: readonly OptionName[];
  examples: readonly string[];
  /** The command that signs in again. Default: `latchkey login` with the name of the connection. */
  signsInAgain?: (input: CommandInput) => string;
  /** Resolves to the exit code. */
  run: (input: CommandInput, host: CommandHost, others: OtherCommands) => Promise<number>;
};

/** A command's access to the other commands. `commands.ts` loads the commands, so they do not import that file. */
export type OtherCommands = {
  all: () => Promise<readonly Command[]>;
  /** A hint for a misspelt command. */
  meant: (word: string) => string | undefined;
};

/** The options that determine where a connection and its secrets are stored, and how its server is reached. */
export const connectionOptions: readonly OptionName[] = [
  'config',
  'secret-store',
  'secret-store-key-file',
  'state-dir',
  'proxy',
  'ca-file',
  'client-certificate-file',
  'client-key-file',
];
