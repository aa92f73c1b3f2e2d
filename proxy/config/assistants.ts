import { nearest } from 'latchkey-mcp/suggest';
import { existsSync } from 'node:fs';
import { posix, win32, basename } from 'node:path';
import type { UserHost } from '#host';
import { UsageError } from './errors.ts';

/** An assistant whose configuration we read and write. */
export type Assistant = {
  /** Its display name. */
  title: string;
  /** The names that it gives in the `clientInfo` of a handshake. */
  clientNames: readonly string[];
  /** The member of its file that contains the servers. */
  servers: ServersMember;
  shape: EntryShape;
  /** Whether it connects to URLs directly, and so sends the secret of such an entry itself. */
  connectsItself: boolean;
  /** The absolute path of the user's own file, which need not exist. */
  file: (host: UserHost) => string;
  /** Another file that it reads. */
  secondFile?: (host: UserHost) => string;
  /** What a person has to know after an installation. */
  note?: string;
};

export type ServersMember = 'mcpServers' | 'servers' | 'mcp_servers' | 'mcp';

/**
 * The form of an entry that starts a program. `typed`: with `"type": "stdio"`. `copilot`: also with the tools that it may use.
 * `opencode`: the command and its arguments are one list.
 */
export type EntryShape = 'plain' | 'typed' | 'copilot' | 'opencode';

/** Every assistant by the name that commands accept, in the order in which their files are read. */
export const assistants = {
  'claude-desktop': {
    title: 'Claude Desktop',
    clientNames: ['claude-ai'],
    servers: 'mcpServers',
    shape: 'plain',
    connectsItself: false,
    file: (host) => inApplications(host, 'Claude', 'claude_desktop_config.json'),
  },
  'claude-code': {
    title: 'Claude Code',
    clientNames: ['claude-code'],
    servers: 'mcpServers',
    shape: 'typed',
    connectsItself: true,
    file: (host) => inHome(host, '.claude.json'),
  },
  gemini: {
    title: 'Gemini CLI',
    clientNames: ['gemini-cli-mcp-client'],
    servers: 'mcpServers',
    shape: 'plain',
    connectsItself: true,
    file: (host) => inHome(host, '.gemini', 'settings.json'),
    note: 'Gemini CLI ignores MCP servers in folders that you have not trusted',
  },
  cursor: {
    title: 'Cursor',
    clientNames: ['cursor', 'cursor-vscode'],
    servers: 'mcpServers',
    shape: 'plain',
    connectsItself: true,
    file: (host) => inHome(host, '.cursor', 'mcp.json'),
  },
  vscode: {
    title: 'VS Code',
    clientNames: ['Visual Studio Code'],
    servers: 'servers',
    shape: 'typed',
    connectsItself: true,
    file: (host) => inApplications(host, 'Code', 'User', 'mcp.json'),
  },
  codex: {
    title: 'Codex',
    clientNames: ['codex-mcp-client'],
    servers: 'mcp_servers',
    shape: 'plain',
    connectsItself: true,
    file: (host) => inFolder(host.env['CODEX_HOME'] || inHome(host, '.codex'), host, 'config.toml'),
  },
  'copilot-cli': {
    title: 'Copilot CLI',
    clientNames: ['github-copilot-developer', 'copilot-cli'],
    servers: 'mcpServers',
    shape: 'copilot',
    connectsItself: true,
    file: (host) =>
      inFolder(host.env['COPILOT_HOME'] || inHome(host, '.copilot'), host, 'mcp-config.json'),
  },
  opencode: {
    title: 'opencode',
    clientNames: ['opencode'],
    servers: 'mcp',
    shape: 'opencode',
    connectsItself: true,
    file: (host) => {
      const withComments = inOpencode(host, 'opencode.jsonc');
      return existsSync(withComments) ? withComments : inOpencode(host, 'opencode.json');
    },
    secondFile: (host) => inOpencode(host, 'opencode.json'),
  },
} as const satisfies Record<string, Assistant>;

type AssistantName = keyof typeof assistants;

/** The assistant with the name that a command was given; `undefined` if there is none. */
export function assistantNamed(name: string): Assistant | undefined {
  return isAssistantName(name) ? assistants[name] : undefined;
}

/** The display name of the assistant with this name in a handshake; the name itself if the assistant is unknown. */
export function titleOfClient(clientName: string): string {
  const known: readonly Assistant[] = Object.values(assistants);
  return known.find(({ clientNames }) => clientNames.includes(clientName))?.title ?? clientName;
}

function isAssistantName(name: string): name is AssistantName {
  return Object.hasOwn(assistants, name);
}

/** The folder in which applications store a user's configuration on this platform. */
export function applicationsFolder({ platform, home, env }: UserHost): string {
  const path = pathsOf(platform);
  if (platform === 'darwin') return path.join(home, 'Library', 'Application Support');
  return platform === 'win32'
    ? env['APPDATA'] || path.join(home, 'AppData', 'Roaming')
    : env['XDG_CONFIG_HOME'] || path.join(home, '.config');
}

function inApplications(host: UserHost, ...names: string[]): string {
  return pathsOf(host.platform).join(applicationsFolder(host), ...names);
}

function inHome({ platform, home }: UserHost, ...names: string[]): string {
  return pathsOf(platform).join(home, ...names);
}

/** OpenCode uses the same folder on every platform. */
function inOpencode(host: UserHost, name: string): string {
  const folder = host.env['XDG_CONFIG_HOME'] || inHome(host, '.config');
  return inFolder(folder, host, 'opencode', name);
}

function inFolder(folder: string, { platform }: UserHost, ...names: string[]): string {
  return pathsOf(platform).join(folder, ...names);
}

/** The files in which an assistant stores this user's own servers. */
export function filesOf({ file, secondFile }: Assistant, host: UserHost): string[] {
  const files = [file(host), secondFile?.(host)];
  return [...new Set(files.filter((path) => path !== undefined))];
}

export function assistantFiles(host: UserHost): string[] {
  return Object.values(assistants).flatMap((assistant) => filesOf(assistant, host));
}

/** Whether its file has a format that no other assistant reads. */
export function hasOwnFormat({ servers }: Pick<Assistant, 'servers'>): boolean {
  return servers === 'mcp' || servers === 'mcp_servers';
}

function pathsOf(platform: NodeJS.Platform): typeof posix {
  return platform === 'win32' ? win32 : posix;
}

/** The file of an assistant that a command works on, and the form of its entries. */
export type AssistantFile = Pick<Assistant, 'title' | 'servers' | 'shape' | 'note'> & {
  file: string;
};

/**
 * The assistant's own file of this user, or the one that `--config` names. `LATCHKEY_CONFIG` only sets where connections are
 * read, not what is written.
 *
 * @throws {UsageError}
 */
export function assistantFile(
  name: string,
  config: string | undefined,
  host: UserHost,
): AssistantFile {
  const assistant = assistantNamed(name);
  if (!assistant) throw unknownAssistant(name);
  const { title, servers, shape, note } = assistant;
  const file = config ?? assistant.file(host);
  // VS Code uses "servers" only in its own files. In files that it shares with others, it uses their name.
  const shared = basename(file) === '.mcp.json';
  return {
    title,
    file,
    servers: shared ? 'mcpServers' : servers,
    shape,
    ...(note !== undefined && { note }),
  };
}

function unknownAssistant(name: string): UsageError {
  const names = Object.keys(assistants);
  const meant = nearest(name, names);
  const longer = names.filter((one) => one.startsWith(`${name}-`));
  const hint =
    longer.length > 0
      ? `did you mean ${longer.join(' or ')}?`
      : meant === undefined
        ? `the assistants are ${names.join(', ')}`
        : `did you mean ${meant}?`;
  return new UsageError(`unknown assistant ${name}`, hint);
}
