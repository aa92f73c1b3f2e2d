import { dataDir, startOptions, variableOf } from '#config/option';
import { type Option } from '#model/option';
import type { Command } from '#admin/command';
import { commands } from './commands.ts';
import type { FolderCommand } from './backup-commands.ts';

export function helpText(version: string): string {
  const lines = commandLines(commands);
  return [
    `latchkey-server ${version}: OAuth 2.0, API keys and MCP endpoints for AI assistants`,
    '',
    'usage: latchkey-server COMMAND [OPTION…]',
    '',
    `  ${'start'.padEnd(32)}start the server`,
    ...lines,
    '',
    'latchkey-server COMMAND --help shows the options of a command. You can also set each option in',
    `the environment, for example ${variableOf(dataDir)} for --data-dir.`,
    '',
    'examples:',
    '  latchkey-server start --demo',
    '  latchkey-server key create demo/library --name "my laptop" --expires-in-days 90',
  ].join('\n');
}

/** The page of `latchkey-server NOUN --help`, such as `server`; `undefined` if no command begins with this noun. */
export function nounHelpText(noun: string): string | undefined {
  const verbs = commands.filter(({ words }) => words.startsWith(`${noun} `));
  if (verbs.length === 0) return undefined;
  return [
    `usage: latchkey-server ${noun} COMMAND [OPTION…]`,
    '',
    ...commandLines(verbs),
    '',
    `latchkey-server ${noun} COMMAND --help shows the options of a command.`,
  ].join('\n');
}

function commandLines(listed: readonly (Command | FolderCommand)[]): string[] {
  return listed.map(({ words, positionals, doc }) => {
    return `  ${`${[words, ...positionals].join(' ')} `.padEnd(32)}${doc}`;
  });
}

export function startHelpText(): string {
  return ['usage: latchkey-server start [OPTION…]', '', ...optionLines(startOptions)].join('\n');
}

export function commandHelpText(
  command: Command | FolderCommand,
  common: readonly Option[],
): string {
  const { words, positionals, doc, options } = command;
  return [
    `usage: latchkey-server ${[words, ...positionals].join(' ')} [OPTION…]`,
    `       ${doc}`,
    '',
    ...optionLines([...options, ...common]),
  ].join('\n');
}

function optionLines(options: readonly Option[]): string[] {
  const usages = options.map(({ name, value, repeated }) => {
    return `--${name}${value === undefined ? '' : ` ${value}`}${repeated ? ' …' : ''}`;
  });
  const width = Math.max(...usages.map((usage) => usage.length)) + 2;
  return options.map(({ fallback, fallbackDoc = fallback, required, doc }, index) => {
    const usage = usages[index] ?? '';
    const more =
      fallbackDoc === undefined ? (required ? ' (required)' : '') : ` (default: ${fallbackDoc})`;
    return `  ${usage.padEnd(width)}${doc}${more}`;
  });
}
