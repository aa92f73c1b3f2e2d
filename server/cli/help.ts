import { dataDir, startOptions, variableOf, type Option } from '#config/option';
import type { Command, FolderCommand } from './command.ts';
import { commands } from './commands.ts';

/** The page that `latchkey-server --help` prints. */
export function helpText(version: string): string {
  const lines = commands.map(({ words, positionals, doc }) => {
    return `  ${[words, ...positionals].join(' ').padEnd(32)}${doc}`;
  });
  return [
    `latchkey-server ${version}: OAuth 2.0, API keys and MCP endpoints for AI assistants`,
    '',
    'usage: latchkey-server COMMAND [OPTION…]',
    '',
    `  ${'start'.padEnd(32)}serve until SIGTERM`,
    ...lines,
    '',
    'latchkey-server COMMAND --help tells the options of a command; all of them may be set in the',
    `environment, as ${variableOf(dataDir)} for --data-dir.`,
    '',
    'examples:',
    '  latchkey-server start --demo',
    '  latchkey-server key create demo/library --name "my laptop" --expires-in-days 90',
  ].join('\n');
}

/** The page of `latchkey-server start --help`. */
export function startHelpText(): string {
  return ['usage: latchkey-server start [OPTION…]', '', ...optionLines(startOptions)].join('\n');
}

/** The page of one administrative command. */
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
  return options.map(({ fallback, doc }, index) => {
    const usage = usages[index] ?? '';
    return `  ${usage.padEnd(width)}${doc}${fallback === undefined ? '' : ` (default: ${fallback})`}`;
  });
}
