import { optionNames, type OptionTexts } from '#config/options';
import { UsageError } from '#config/usage-error';

export type Command =
  | { command: 'help'; about?: CommandName }
  | { command: 'version' }
  | { command: 'connect' | 'login' | 'logout'; target: string; options: OptionTexts }
  | { command: 'status'; target: string | undefined; json: boolean; options: OptionTexts };

const commands = ['connect', 'login', 'logout', 'status'] as const;
export type CommandName = (typeof commands)[number];

/**
 * What the words after `latchkey` ask for.
 *
 * @throws {UsageError}
 */
export function parseCommandLine(words: readonly string[]): Command {
  const options: OptionTexts = {};
  const operands: string[] = [];
  const rest = [...words];
  let json = false;
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '--help' || word === '-h') {
      const about = commandNamed(operands[0]);
      return { command: 'help', ...(about && { about }) };
    }
    if (word === '--version' || word === '-v') return { command: 'version' };
    if (word === '--json') {
      json = true;
      continue;
    }
    if (!word.startsWith('-')) {
      operands.push(word);
      continue;
    }
    const [flag, inline] = splitOnce(word, '=');
    const name = optionNames.find((known) => `--${known}` === flag);
    if (name === undefined) throw new UsageError(`there is no option ${flag}`);
    const value = inline ?? rest.shift();
    if (!value) throw new UsageError(`${flag} needs a value`);
    options[name] = value;
  }
  const command = commandNamed(operands[0]);
  const [first, ...others] = command ? operands.slice(1) : operands;
  // A secret may have been typed here, so the surplus is not repeated.
  if (others.length > 0)
    throw new UsageError(
      `one server at a time; ${others.length + 1} given`,
      `the commands are ${commands.join(', ')}; latchkey --help shows more`,
    );
  if (first === 'help' && !command) return { command: 'help' };
  if (command === 'status') return { command, target: first, json, options };
  if (json) throw new UsageError('--json belongs to latchkey status');
  if (first === undefined) throw new UsageError('which server? give its name or its URL');
  return { command: command ?? 'connect', target: first, options };
}

function commandNamed(word: string | undefined): CommandName | undefined {
  return commands.find((known) => known === word);
}

function splitOnce(text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
