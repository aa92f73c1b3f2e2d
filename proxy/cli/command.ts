import type { OptionName, OptionTexts } from '#config/options';
import type { CommandHost } from './command-host.ts';

/** A word of one command alone, as `--json`; with `value` it takes one. */
export type Flag = {
  /** The placeholder of the value in the help; none for a switch. */
  value?: string;
  /** May be given more than once. */
  repeated?: boolean;
  /** Empty where `idle` says why it changes nothing. */
  doc: string;
  idle?: string;
};

/** What was typed behind a command's name. */
export type CommandInput = {
  operands: readonly string[];
  /** The values of each flag that was given; a switch has one empty value. */
  flags: ReadonlyMap<string, readonly string[]>;
  options: OptionTexts;
};

/** One command of `latchkey`. What it is made of is loaded when it runs, as `connect` starts many times a day. */
export type Command = {
  name: string;
  /** For programs, not for people: no help names it. */
  hidden?: true;
  /** Commands named by a second word; their names are both words: `agent login`. */
  subcommands?: readonly Command[];
  /** Its operands, as the help shows them: `NAME|URL`. Those in brackets may be left out. */
  operands: string;
  /** One line, lowercase. */
  summary: string;
  /** What its own help says besides. */
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

/** What a command may know of the others. `commands.ts` loads the commands, so they do not import it. */
export type OtherCommands = {
  all: () => Promise<readonly Command[]>;
  /** A hint for a misspelt command. */
  meant: (word: string) => string | undefined;
};

/** The options that say where a connection and its secrets are kept, and how it is reached. */
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
