import { nearest } from 'latchkey-mcp/suggest';
import { UsageError } from '#config/usage-error';
import type { Command } from '#admin/command';
import { commands } from './commands.ts';
import type { FolderCommand } from './backup-commands.ts';

const allHelp = 'latchkey-server help lists the commands';

/**
 * The command that the arguments begin with, and the remaining arguments.
 *
 * @throws {UsageError}
 */
export function findCommand(argv: readonly string[]): {
  command: Command | FolderCommand;
  rest: string[];
} {
  const [noun = '', verb = '', ...rest] = argv;
  const alone = commands.find(({ words }) => words === noun);
  if (alone) return { command: alone, rest: argv.slice(1) };
  const command = commands.find(({ words }) => words === `${noun} ${verb}`);
  if (command) return { command, rest };
  const verbs = commands.filter(({ words }) => words.startsWith(`${noun} `));
  if (verbs.length === 0)
    throw new UsageError(`'${noun}' is not a command`, meantNoun(noun, verb) ?? allHelp);
  const known = verbs.map(({ words }) => words).join(', ');
  throw new UsageError(
    verb === '' ? `${noun} needs a command` : `'${noun} ${verb}' is not a command`,
    meantVerb(noun, verb) ?? `available commands: ${known}`,
  );
}

/** A hint for a misspelt first word, such as `agents list`. */
function meantNoun(noun: string, verb: string): string | undefined {
  const nouns = [...new Set(commands.map(({ words }) => words.split(' ')[0] ?? '')), 'start'];
  const meant = nearest(noun, nouns);
  if (meant === undefined) return undefined;
  const isKnown = commands.some(({ words }) => words === `${meant} ${verb}`);
  if (isKnown) return didYouMean(`${meant} ${verb}`);
  return meantVerb(meant, verb) ?? didYouMean(meant);
}

/** A hint for a misspelt second word, such as `agent lst`. */
function meantVerb(noun: string, verb: string): string | undefined {
  const verbs = commands.flatMap(({ words }) =>
    words.startsWith(`${noun} `) ? [words.slice(noun.length + 1)] : [],
  );
  const meant = nearest(verb, verbs);
  return meant === undefined ? undefined : didYouMean(`${noun} ${meant}`);
}

function didYouMean(words: string): string {
  return `did you mean latchkey-server ${words}?`;
}

/**
 * The last argument may stand for several (`NAME…`), or for any number of them (`[NAME…]`).
 *
 * @throws {UsageError} when there are more or fewer arguments than the command takes.
 */
export function checkPositionals(
  command: Pick<Command, 'words' | 'positionals'>,
  given: readonly string[],
): void {
  const usage = `latchkey-server ${[command.words, ...command.positionals].join(' ')}`;
  const missing = command.positionals[given.length];
  if (missing !== undefined && !missing.startsWith('[')) {
    throw new UsageError(`${missing.replace('…', '')} is missing`, usage);
  }
  const extra = given[command.positionals.length];
  const isRepeated = /…\]?$/.test(command.positionals.at(-1) ?? '');
  if (extra !== undefined && !isRepeated)
    throw new UsageError(`unexpected argument '${extra}'`, usage);
}
