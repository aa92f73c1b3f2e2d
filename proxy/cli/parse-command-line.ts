import { optionCalled, type OptionTexts } from '#config/options';
import { UsageError } from '#config/usage-error';
import type { Command, CommandInput } from './command.ts';
import { commands } from './commands.ts';
import { connectCommand } from './connect-command.ts';

export type Asked =
  | { ask: 'help'; about: Command | undefined }
  | { ask: 'version' }
  | { ask: 'run'; command: Command; input: CommandInput };

/**
 * What the words after `latchkey` ask for.
 *
 * @throws {UsageError}
 */
export function parseCommandLine(words: readonly string[]): Asked {
  const named = commands.find(({ name }) => words.includes(name) && name === firstOperand(words));
  const command = named ?? connectCommand;
  const options: OptionTexts = {};
  const flags = new Map<string, string[]>();
  const operands: string[] = [];
  const rest = [...words];
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--help' || word === '-h') return { ask: 'help', about: named };
    if (word === '--version' || word === '-v') return { ask: 'version' };
    if (!word.startsWith('-')) {
      operands.push(word);
      continue;
    }
    const [name, inline] = splitOnce(word, '=');
    const option = optionCalled(name);
    const flag = name.startsWith('--') ? command.flags[name.slice(2)] : undefined;
    if (flag && flag.value === undefined) {
      if (inline !== undefined) throw new UsageError(`${name} takes no value`);
      flags.set(name.slice(2), ['']);
      continue;
    }
    if (!flag && option === undefined) throw unknownOption(name, command);
    const value = inline ?? rest.shift();
    if (!value) throw new UsageError(`${name} needs a value`);
    if (option !== undefined && !flag) options[option] = value;
    else {
      const given = flags.get(name.slice(2));
      if (given && !flag?.repeated) throw new UsageError(`${name} was given twice`);
      flags.set(name.slice(2), [...(given ?? []), value]);
    }
  }
  if (named) operands.shift();
  else if (operands[0] === 'help') return { ask: 'help', about: commandNamed(operands[1]) };
  checkCount(operands, command);
  return { ask: 'run', command, input: { operands, flags, options } };
}

/** The first word that is neither an option nor the value of one. */
function firstOperand(words: readonly string[]): string | undefined {
  let skipped = false;
  return words.find((word) => {
    if (skipped) {
      skipped = false;
      return false;
    }
    if (!word.startsWith('-')) return true;
    skipped =
      optionCalled(word) !== undefined || connectCommand.flags[word.slice(2)]?.value !== undefined;
    return false;
  });
}

/** A secret may have been typed among them, so the surplus is not repeated. */
function checkCount(operands: readonly string[], { name, operands: shown, arity }: Command): void {
  const [least] = arity;
  const port = name === 'connect' && /^\d{1,5}$/.test(operands[1] ?? '');
  const most = name === 'connect' && !port ? 1 : arity[1];
  if (operands.length < least)
    throw new UsageError(
      name === 'connect'
        ? 'which server? give its name or its URL'
        : `latchkey ${name} needs ${shown}`,
      name === 'connect' ? '' : `latchkey ${name} --help shows more`,
    );
  if (operands.length > most)
    throw new UsageError(
      most === 1 || name === 'connect'
        ? `one server at a time; ${operands.length} given`
        : `too many words`,
      `the commands are ${commands
        .filter(({ hidden }) => !hidden)
        .map((known) => known.name)
        .join(', ')}; latchkey --help shows more`,
    );
}

function unknownOption(name: string, command: Command): UsageError {
  const owner = commands.find(({ flags }) => name.startsWith('--') && name.slice(2) in flags);
  if (!owner) return new UsageError(`there is no option ${name}`);
  return new UsageError(
    `${name} does not belong to latchkey ${command.name}`,
    `it belongs to latchkey ${owner.name}`,
  );
}

function commandNamed(word: string | undefined): Command | undefined {
  return commands.find(({ name }) => name === word);
}

function splitOnce(text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
