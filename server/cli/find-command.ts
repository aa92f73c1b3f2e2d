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
  if (verbs.length === 0) throw new UsageError(`'${noun}' is not a command`, allHelp);
  const known = verbs.map(({ words }) => words).join(', ');
  throw new UsageError(
    verb === '' ? `${noun} needs a command` : `'${noun} ${verb}' is not a command`,
    `available commands: ${known}`,
  );
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
