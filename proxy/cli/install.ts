import { assistantFile, assistantNamed } from '#config/assistants';
import { UsageError } from '#config/errors';
import type { Command, CommandInput, Flag } from './command.ts';
import { connectionsOf, type CommandHost } from './command-host.ts';
import { checkCertificates, missingNetwork } from './inherited-network.ts';

/** `crm, library and wiki` */
export function listed(names: readonly string[]): string {
  return new Intl.ListFormat('en-GB').format(names);
}

/** Tells the user which assistants to restart, so that they read their changed files. */
export function restartLine(titles: readonly string[]): string {
  return `next: restart ${listed(titles)} to finish`;
}

const configFlag: Flag = {
  value: 'FILE',
  doc: 'change this file instead of the assistant’s own, such as .mcp.json in a project',
};

/** `latchkey install ASSISTANT NAME`. */
export const installCommand: Command = {
  name: 'install',
  operands: 'ASSISTANT NAME',
  summary: 'add a connection to an assistant',
  about: `Adds an entry that starts the connection to the configuration file of an assistant: claude-desktop, claude-code,
gemini, cursor, vscode, codex, copilot-cli or opencode. Nothing else in the file changes, and a backup is stored next
to it. If npm installed Latchkey, the assistant starts a copy in your data folder, which still works after an update of
Node.js. uninstall reverts both. Options such as --log-file and --proxy become part of the entry, and so do LATCHKEY_PROXY
and the variables for certificates, because an assistant may not inherit them.`,
  flags: {
    config: configFlag,
    replace: { doc: 'replace another entry with this name' },
    json: { doc: 'print one JSON object' },
  },
  options: [
    'secret-store',
    'secret-store-key-file',
    'state-dir',
    'log-level',
    'log-file',
    'proxy',
    'ca-file',
    'client-certificate-file',
    'client-key-file',
  ],
  examples: [
    'latchkey install cursor sales',
    'latchkey install claude-code sales --config ./.mcp.json',
  ],
  async run(input, host) {
    await install(input, host);
    return 0;
  },
};

/** `latchkey uninstall ASSISTANT NAME`. */
export const uninstallCommand: Command = {
  name: 'uninstall',
  operands: 'ASSISTANT NAME',
  summary: 'remove a connection from an assistant',
  about: `Restores the file that install changed. If the file has changed since then, the command removes or restores only
the entry. The connection itself stays.`,
  flags: { config: configFlag, json: { doc: 'print one JSON object' } },
  options: ['state-dir'],
  examples: [
    'latchkey uninstall cursor sales',
    'latchkey uninstall claude-code sales --config ./.mcp.json',
  ],
  async run(input, host) {
    await uninstall(input, host);
    return 0;
  },
};

/**
 * The assistant and the connection that were typed, and the file of `--config`.
 *
 * @throws {UsageError} if they were typed in the other order
 */
function named(command: 'install' | 'uninstall', { operands, flags }: CommandInput) {
  const [assistant = '', name = ''] = operands;
  if (!assistantNamed(assistant) && assistantNamed(name))
    throw new UsageError(
      'the assistant comes first, then the connection',
      `did you mean latchkey ${command} ${name} ${assistant}?`,
    );
  return { assistant, name, config: flags.get('config')?.[0] };
}

/** Runs `latchkey install`. The other entries of the file stay as they are. */
async function install(input: CommandInput, host: CommandHost): Promise<void> {
  const { assistant, name, config } = named('install', input);
  const { title } = assistantFile(assistant, config, host);
  const options = host.options(input.options);
  await checkCertificates(options, host);
  const replace = input.flags.has('replace');
  const connections = connectionsOf(host, input.options);
  const { note, ...installed } = await connections.install(assistant, name, { replace, config });
  const { file, changed, backup } = installed;
  const own = await connections.own(name);
  for (const one of missingNetwork(own ? [own.url] : [], options, host)) host.warn(`note: ${one}`);
  if (input.flags.has('json')) return host.print(JSON.stringify({ assistant, name, ...installed }));
  host.print(
    changed ? `added ${name} to ${title}: ${file}` : `${name} was already in ${title}: ${file}`,
  );
  if (backup !== undefined) host.warn(`backup of the file: ${backup}`);
  if (note !== undefined) host.warn(`note: ${note}`);
  if (changed) host.warn(restartLine([title]));
}

/** Runs `latchkey uninstall`: restores the file, or removes only the entry if the file has changed since `install`. */
async function uninstall(input: CommandInput, host: CommandHost): Promise<void> {
  const { assistant, name, config } = named('uninstall', input);
  const { title } = assistantFile(assistant, config, host);
  const connections = connectionsOf(host, input.options);
  const { file, did, backup } = await connections.uninstall(assistant, name, { config });
  const done = { did, ...(backup !== undefined && { backup }) };
  if (input.flags.has('json'))
    return host.print(JSON.stringify({ assistant, name, file, ...done }));
  const words = {
    restored: `removed ${name} from ${title} and restored its original file: ${file}`,
    removed: `removed ${name} from ${title}: ${file}`,
    absent: `${name} was not in ${title}: ${file}`,
  };
  host.print(words[did]);
  if (backup !== undefined) host.warn(`backup of the file: ${backup}`);
}
