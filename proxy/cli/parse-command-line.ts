import { parseArgs, type ParseArgsOptionsConfig } from 'node:util';
import { optionCalled, optionWords, type OptionTexts } from '#config/options';
import { UsageError } from '#config/errors';
import type { Command, CommandInput } from './command.ts';
import { allCommands, findCommand, meantCommand } from './commands.ts';
import { connectCommand } from './connect.ts';
import { nearest } from 'latchkey-mcp/suggest';

export type Asked =
  | { ask: 'help'; about: Command | undefined }
  | { ask: 'version' }
  | { ask: 'run'; command: Command; input: CommandInput };

/** The command that the words after `latchkey help` name, such as `agent login`; `undefined` if there is none. */
async function commandNamed(words: readonly { text: string }[]): Promise<Command | undefined> {
  const [first, second] = words.map(({ text }) => text);
  const command = first === undefined ? undefined : await findCommand(first);
  return command?.subcommands?.find(({ name }) => name === `${first} ${second}`) ?? command;
}

type Token = ReturnType<typeof tokensOf>[number];

/**
 * Parses the words after `latchkey`: a command by its name, otherwise `connect`.
 *
 * @throws {UsageError}
 */
export async function parseCommandLine(words: readonly string[]): Promise<Asked> {
  const [first] = operandsOf(tokensOf(words, connectCommand));
  const named = first?.isWord ? await findCommand(first.text) : undefined;
  let command = named ?? connectCommand;
  const second = operandsOf(tokensOf(words, command))[1]?.text;
  command =
    command.subcommands?.find(({ name }) => name === `${command.name} ${second}`) ?? command;

  const tokens = tokensOf(words, command);
  const has = (name: string) => tokens.some((one) => one.kind === 'option' && one.name === name);
  if (has('help')) {
    const isOther = !named && first?.isWord && first.text !== 'help';
    const isUrl = isOther && first.text.includes('://');
    if (isOther && !isUrl) throw unknownCommand(first.text);
    return { ask: 'help', about: named || isUrl ? command : undefined };
  }
  if (has('version')) return { ask: 'version' };
  if (!named && first?.isWord && first.text === 'help') {
    const asked = operandsOf(tokens).slice(1);
    const about = await commandNamed(asked);
    const [word] = asked;
    if (word && !about && word.text !== 'help') throw unknownCommand(word.text);
    return { ask: 'help', about };
  }
  const unknown = tokens.find((token) => token.kind === 'option' && !isKnown(token, command));
  if (unknown?.kind === 'option') throw await unknownOption(unknown.rawName, command, first?.text);
  return { ask: 'run', command, input: readInput(words, command, named) };
}

/**
 * Reads the operands, flags and options that were typed for `command`. If the command was `named`, the first operands are its
 * name.
 *
 * @throws {UsageError}
 */
export function readInput(
  words: readonly string[],
  command: Command,
  named?: Command,
): CommandInput {
  const options: OptionTexts = {};
  const flags = new Map<string, string[]>();
  const tokens = tokensOf(words, command);
  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    const { name, rawName } = token;
    const flag = flagOf(name, command);
    if (flag && flag.value === undefined) {
      if (token.value !== undefined)
        throw name === 'api-key' ? typedKey() : new UsageError(`${rawName} takes no value`);
      flags.set(name, ['']);
      continue;
    }
    const value = valueOf(token, command);
    const option = flag ? undefined : optionCalled(rawName);
    const given = option === undefined ? flags.get(name) : options[option];
    if (given !== undefined && !flag?.repeated) throw new UsageError(`${rawName} was given twice`);
    if (option === undefined) flags.set(name, [...(flags.get(name) ?? []), value]);
    else options[option] = value;
  }
  const skipped = named ? command.name.split(' ').length : 0;
  const operands = operandsOf(tokens).map(({ text }) => text);
  const isKeyTyped = flags.has('api-key') && operands.some((text) => text.startsWith('mcp_'));
  if (isKeyTyped) throw typedKey();
  checkCount(operands.slice(skipped), command);
  return { operands: operands.slice(skipped), flags, options };
}

function tokensOf(words: readonly string[], { flags }: Command) {
  const options: ParseArgsOptionsConfig = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean', short: 'v' },
  };
  for (const word of optionWords) options[word] = { type: 'string' };
  for (const [name, { value }] of Object.entries(flags))
    options[name] = { type: value === undefined ? 'boolean' : 'string' };
  const how = { strict: false, allowPositionals: true, tokens: true } as const;
  return parseArgs({ ...how, args: [...words], options }).tokens;
}

/** The operands. After `--`, an operand is not a word of ours, such as the name of a command. */
function operandsOf(tokens: readonly Token[]): { text: string; isWord: boolean }[] {
  const end = tokens.findIndex(({ kind }) => kind === 'option-terminator');
  return tokens.flatMap((token, at) =>
    token.kind === 'positional' ? [{ text: token.value, isWord: end < 0 || at < end }] : [],
  );
}

function flagOf(name: string, { flags }: Command) {
  return Object.hasOwn(flags, name) ? flags[name] : undefined;
}

function isKnown({ name, rawName }: { name: string; rawName: string }, command: Command): boolean {
  return flagOf(name, command) !== undefined || optionCalled(rawName) !== undefined;
}

/** The value of an option. It starts with a dash only in the form `--one=--other`. No error repeats it, as it may be secret. */
function valueOf(token: Token & { kind: 'option' }, command: Command): string {
  const { rawName, value, inlineValue } = token;
  if (!value)
    throw new UsageError(
      `${rawName} requires a value`,
      `latchkey ${command.name} --help shows more`,
    );
  if (inlineValue || !/^-./.test(value)) return value;
  const [next = ''] = value.split('=');
  const isOption = isKnown({ name: next.slice(2), rawName: next }, command);
  throw new UsageError(
    `${rawName} requires a value, but ${isOption ? `${next} is an option` : 'the next word starts with a dash'}`,
    `if the value starts with a dash, write ${rawName}=VALUE`,
  );
}

/** The error for help about an unknown command. The name of a connection is not a command, either. */
function unknownCommand(word: string): UsageError {
  return new UsageError(
    `unknown command ${word}`,
    meantCommand(word) ??
      'latchkey help lists the commands; latchkey connect --help explains the options of a connection',
  );
}

/** A key that was typed as an argument is in the history of the shell. */
function typedKey(): UsageError {
  return new UsageError(
    '--api-key takes no value: Latchkey asks for the key',
    'the key is now in the history of your shell; rotate it, then run the command without it',
  );
}

/** Checks the number of operands. The error does not repeat the surplus, because it may contain a secret. */
function checkCount(operands: readonly string[], command: Command): void {
  const { name, operands: shown, subcommands } = command;
  const words = subcommands ? [] : shown.split(' ').filter(Boolean);
  const least = words.filter((word) => !word.startsWith('[')).length;
  // After the URL, mcp-remote accepts the port of its redirect URI.
  const port = name === 'connect' && /^\d{1,5}$/.test(operands[1] ?? '');
  const most = words.length + (port ? 1 : 0);
  if (operands.length < least)
    throw new UsageError(
      name === 'connect'
        ? 'no server given; enter its name or its URL'
        : `latchkey ${name} needs ${shown}`,
      name === 'connect'
        ? 'latchkey help lists the commands'
        : `for example: ${command.examples[0]}`,
    );
  if (operands.length <= most) return;
  if (subcommands) {
    const names = subcommands.map((one) => one.name.slice(name.length + 1));
    const meant = nearest(operands[0] ?? '', names);
    throw new UsageError(
      `latchkey ${name}: unknown command`,
      meant === undefined
        ? `available commands: ${names.join(', ')}`
        : `did you mean latchkey ${name} ${meant}?`,
    );
  }
  const meant = name === 'connect' ? meantCommand(operands[0]) : undefined;
  if (meant !== undefined) throw new UsageError(`unknown command ${operands[0]}`, meant);
  throw new UsageError(
    (most === 1 && /NAME|URL/.test(shown)) || name === 'connect'
      ? `enter one server only; ${operands.length} given`
      : `too many arguments`,
    name === 'connect' ? undefined : `latchkey ${name} --help shows more`,
  );
}

async function unknownOption(
  option: string,
  command: Command,
  first: string | undefined,
): Promise<UsageError> {
  const known = [...Object.keys(command.flags), ...optionWords, 'help', 'version'];
  const meant = option.startsWith('--') ? nearest(option.slice(2), known) : undefined;
  const owner = (await allCommands()).find(
    ({ flags }) => option.startsWith('--') && Object.hasOwn(flags, option.slice(2)),
  );
  if (owner && option === '--yes')
    return new UsageError(
      `latchkey ${command.name} has no option --yes`,
      `${command.name} asks no question; leave --yes out`,
    );
  if (owner)
    return new UsageError(
      `latchkey ${command.name} has no option ${option}`,
      (command === connectCommand && meantCommand(first)) ||
        `latchkey ${owner.name} has this option`,
    );
  const message = `unknown option ${option}`;
  return meant === undefined
    ? new UsageError(message)
    : new UsageError(message, `did you mean --${meant}?`);
}
