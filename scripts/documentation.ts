/** `npm run docs`: writes the pages of `docs/` that follow from the commands' declarations. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { allCommands } from '#proxy/cli/commands';
import type { Command as ProxyCommand } from '#proxy/cli/command';
import { oauthFieldList } from '#proxy/config/oauth-fields';
import { declarations, optionNames, type OptionName } from '#proxy/config/options';
import { commands as serverCommands } from '#server/cli/commands';
import type { Command as ServerCommand } from '#server/admin/command';
import type { FolderCommand } from '#server/cli/backup-commands';
import { dataDir, startOptions, variableOf } from '#server/config/option';
import { type Option } from '#server/model/option';

/** The reference pages of `docs/` that follow from the commands' own declarations: file name to Markdown. */
export async function commandPages(): Promise<Readonly<Record<string, string>>> {
  return {
    'cli-latchkey.md': proxyPage(await allCommands()),
    'cli-latchkey-server.md': serverPage(),
    'assistants.md': assistantsPage(),
  };
}

const generated =
  '<!-- Written by `npm run docs`. Change the declarations of the commands, not this file. -->';

/** How to start a program. npm would treat an option that follows the program's name as its own. */
function intro(program: string): string {
  return `Exit codes: 0 done, 1 failed, 2 wrong usage. In a clone of the repository, put \`npx --no\` in front of each command, and
\`npx --no --\` in front of one that begins with an option: \`npx --no -- ${program} --help\`.`;
}

function proxyPage(proxyCommands: readonly ProxyCommand[]): string {
  const shown = proxyCommands.filter(({ hidden }) => !hidden);
  return page([
    '# Command line: `latchkey`',
    generated,
    intro('latchkey'),
    '## Commands',
    table(
      ['Command', 'Purpose'],
      shown.map(({ name, operands, summary }) => [
        `[\`${bars(proxyUsage({ name, operands }))}\`](#latchkey-${name.replaceAll(' ', '-')})`,
        cell(summary),
      ]),
    ),
    ...shown.flatMap(proxySection),
    '## Options',
    'Each option can also be set by its environment variable. An option on the command line wins.',
    table(
      ['Option', 'Environment variable', 'Default', 'Purpose'],
      optionNames.map((name) => proxyOption(name)),
    ),
    '## Secrets in the environment',
    'These values have no option, because every program on a machine can read command lines.',
    table(
      ['Environment variable', 'Holds'],
      [
        ['`LATCHKEY_OAUTH`', 'the `oauth` object as JSON: `clientId`, `clientSecret`, `scopes`'],
        ['`LATCHKEY_CLIENT_SECRET`', 'the client secret'],
        ['`LATCHKEY_API_KEY`', 'an API key, sent as `X-API-Key`'],
        ['`LATCHKEY_AGENT_KEY`', 'the key of an agent'],
        ['`LATCHKEY_PRIVATE_KEY_PASSPHRASE`', 'the passphrase of `oauth.privateKeyFile`'],
        ['`LATCHKEY_CLIENT_KEY_PASSPHRASE`', 'the passphrase of `--client-key-file`'],
      ],
    ),
  ]);
}

const folder = join(import.meta.dirname, '../docs');

/** The page `assistants.md` with an updated table of the members of `oauth`. */
function assistantsPage(): string {
  const [start, end] = ['<!-- oauth members: written by `npm run docs` -->\n', '<!-- end -->'];
  const [before = '', rest = ''] = readFileSync(join(folder, 'assistants.md'), 'utf8').split(start);
  const [, after = ''] = rest.split(end);
  const rows = oauthFieldList.map(([name, { doc, env }]) => [
    `\`${name}\``,
    bars(doc),
    env === undefined ? '' : `\`${env}\``,
  ]);
  const grant = '`client_credentials` or `authorization_code`, where the default is not right';
  const members = table(['Member', 'Meaning', 'Overridden by'], [...rows, ['`grant`', grant, '']]);
  return `${before}${start}\n${members}\n\n${end}${after}`;
}

function proxyUsage({ name, operands }: Pick<ProxyCommand, 'name' | 'operands'>): string {
  const word = name === 'connect' ? '[connect]' : name;
  return `latchkey ${word}${operands === '' ? '' : ` ${operands}`}`;
}

function proxySection(command: ProxyCommand): string[] {
  const { name, about, flags, options, examples } = command;
  const rows = Object.entries(flags).map(([flag, { value, repeated, doc, idle = '' }]) => [
    optionCell(flag, value, repeated),
    cell(doc || `accepted from mcp-remote, without effect: ${idle}`),
  ]);
  return [
    `### latchkey ${name}`,
    fenced('text', `${proxyUsage(command)} [options]`),
    ...paragraphs(about),
    ...(rows.length > 0 ? [table(['Option', 'Purpose'], rows)] : []),
    ...(options.length > 0
      ? [`It also takes ${options.map((option) => `\`--${option}\``).join(', ')}.`]
      : []),
    ...(examples.length > 0 ? [fenced('sh', examples.join('\n'))] : []),
  ];
}

function proxyOption(name: OptionName): string[] {
  const { value, env, doc, ...rest } = declarations[name];
  const fallback = 'fallback' in rest ? `\`${rest.fallback}\`` : '';
  return [optionCell(name, value), `\`${env}\``, fallback, cell(doc)];
}

function serverPage(): string {
  const nouns = [...new Set(serverCommands.map(({ words }) => words.split(' ')[0] ?? ''))];
  return page([
    '# Command line: `latchkey-server`',
    generated,
    `${intro('latchkey-server')}
Commands work while the server runs, and take effect on the next request.`,
    `Every command but \`migrate\` also takes \`--${dataDir.name} ${dataDir.value ?? ''}\`: ${dataDir.doc} (default: \`${dataDir.fallback ?? ''}\`).
Every option can be set by an environment variable, \`${variableOf(dataDir)}\` for \`--${dataDir.name}\`.
The values of an option that may be repeated are separated there by commas or spaces.`,
    '## Commands',
    table(
      ['Command', 'Purpose'],
      [
        ['[`latchkey-server start`](#latchkey-server-start)', 'serve until SIGTERM'],
        ...serverCommands.map((command) => [
          `[\`${serverUsage(command)}\`](#latchkey-server-${command.words.replaceAll(' ', '-')})`,
          cell(command.doc),
        ]),
      ],
    ),
    '## start',
    '### latchkey-server start',
    fenced('text', 'latchkey-server start [options]'),
    serverOptions(startOptions),
    ...nouns.flatMap((noun) => [`## ${noun}`].concat(serverSections(noun))),
  ]);
}

function serverUsage({ words, positionals }: ServerCommand | FolderCommand): string {
  return ['latchkey-server', words, ...positionals].join(' ');
}

/** The sections of the commands of one noun, such as `server`. */
function serverSections(noun: string): string[] {
  const ofNoun = serverCommands.filter(({ words }) => words.split(' ')[0] === noun);
  return ofNoun.flatMap((command) => {
    const parts = [
      `### latchkey-server ${command.words}`,
      `${capitalized(cell(command.doc))}.`,
      fenced('text', `${serverUsage(command)} [options]`),
    ];
    return command.options.length > 0 ? parts.concat(serverOptions(command.options)) : parts;
  });
}

function serverOptions(options: readonly Option[]): string {
  return table(
    ['Option', 'Default', 'Purpose'],
    options.map(({ name, value, repeated, required, fallback, fallbackDoc, doc }) => [
      optionCell(name, value, repeated),
      fallbackDoc ?? (fallback === undefined ? (required ? 'required' : '') : `\`${fallback}\``),
      cell(doc),
    ]),
  );
}

function optionCell(name: string, value: string | undefined, repeated = false): string {
  const usage = `\`--${name}${value === undefined ? '' : ` ${bars(value)}`}\``;
  return repeated ? `${usage}, repeatable` : usage;
}

/** Prose for a cell of a table: on one line, with Markdown escaped. */
function cell(text: string): string {
  return bars(text).replaceAll('<', '&lt;').replaceAll('*', '\\*').replaceAll('\n', ' ');
}

/** A bar ends a cell unless it is escaped, inside code too. GitHub Flavored Markdown, "Tables" */
function bars(text: string): string {
  return text.replaceAll('|', '\\|');
}

/** Paragraphs of prose. Lines that are indented by two spaces are examples. */
function paragraphs(text: string): string[] {
  return text.split('\n\n').map((part) => {
    return part.startsWith('  ') ? fenced('text', part.replaceAll(/^ {2}/gm, '')) : part;
  });
}

function fenced(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function page(parts: readonly string[]): string {
  return `${parts.join('\n\n')}\n`;
}

if (import.meta.main) {
  for (const [name, text] of Object.entries(await commandPages())) {
    const file = join(folder, name);
    writeFileSync(file, text);
    process.stdout.write(`${file}\n`);
  }
}
