// The files with which device management installs servers on many computers. Each is made of public URLs and names alone, so that none
// contains a secret: every person signs in on their own computer.

import { createHash } from 'node:crypto';

/** How an assistant reaches a server: itself, with its own sign-in, or by the installed command `latchkey`. */
export type Connection = 'direct' | 'latchkey';
export const connections = ['direct', 'latchkey'] as const satisfies readonly Connection[];

/** The data that a file is made from. */
export interface DeploymentPlan {
  readonly base: string;
  /** The address of the organization's registry. */
  readonly registryUrl: string;
  readonly organization: string;
  readonly connection: Connection;
  readonly servers: readonly { readonly name: string; readonly title: string }[];
}

/** A file as it is stored on a computer. */
export interface AssistantFile {
  /** The assistant, or the part of one, that the file is for. */
  readonly title: string;
  readonly fileName: string;
  readonly mediaType: string;
  /** Where it belongs. */
  readonly places: readonly string[];
  /** What it does, in a sentence. */
  readonly effect: string;
  /** Whether it contains no servers, but allows only published ones. Without installed servers, other files forbid all or are empty. */
  readonly allowsOnlyPublished: boolean;
  readonly write: (plan: DeploymentPlan) => string;
}

const jsonType = 'application/json';

/** All files, in the order in which pages list them. */
export const assistantFiles = {
  'claude-code': {
    title: 'Claude Code',
    fileName: 'managed-mcp.json',
    mediaType: jsonType,
    places: [
      'Linux: /etc/claude-code/managed-mcp.json',
      'macOS: /Library/Application Support/ClaudeCode/managed-mcp.json',
      'Windows: C:\\Program Files\\ClaudeCode\\managed-mcp.json',
    ],
    effect: 'Claude Code uses these servers and no others.',
    allowsOnlyPublished: false,
    write: (plan) => pretty({ mcpServers: byName(plan, entryOf) }),
  },
  'claude-code-lists': {
    title: 'Claude Code, allow and deny lists',
    fileName: 'managed-settings.json',
    mediaType: jsonType,
    places: [
      'Linux: /etc/claude-code/managed-settings.json',
      'macOS: /Library/Application Support/ClaudeCode/managed-settings.json',
      'Windows: C:\\Program Files\\ClaudeCode\\managed-settings.json',
    ],
    effect:
      'People can add only servers of this organization. List what is never allowed in deniedMcpServers. Merge the file with the existing settings.',
    allowsOnlyPublished: false,
    write: (plan) =>
      pretty({
        allowManagedMcpServersOnly: true,
        allowedMcpServers: [
          { serverUrl: `${plan.base}/mcp/${plan.organization}/*` },
          ...plan.servers.map(({ name }) => ({ serverCommand: commandOf(plan, name) })),
        ],
        deniedMcpServers: [],
      }),
  },
  vscode: {
    title: 'VS Code',
    fileName: 'mcp.json',
    mediaType: jsonType,
    places: [
      'Linux: ~/.config/Code/User/mcp.json',
      'macOS: ~/Library/Application Support/Code/User/mcp.json',
      'Windows: %APPDATA%\\Code\\User\\mcp.json',
    ],
    effect: 'Adds these servers for one person. Merge the file with the existing one.',
    allowsOnlyPublished: false,
    write: (plan) => pretty({ servers: byName(plan, typedEntryOf) }),
  },
  'vscode-policy': {
    title: 'VS Code, policy for Linux',
    fileName: 'policy.json',
    mediaType: jsonType,
    places: ['Linux: /etc/vscode/policy.json'],
    effect: 'VS Code runs only servers that this organization published in its registry.',
    allowsOnlyPublished: true,
    write: (plan) => pretty(vscodePolicies(plan)),
  },
  'vscode-policy-windows': {
    title: 'VS Code, policy for Windows',
    fileName: 'vscode-policy.reg',
    mediaType: 'text/plain',
    places: ['Windows: imported into the registry, or as a group policy'],
    effect: 'VS Code runs only servers that this organization published in its registry.',
    allowsOnlyPublished: true,
    write: registryFile,
  },
  'vscode-policy-macos': {
    title: 'VS Code, policy for macOS',
    fileName: 'vscode-policy.mobileconfig',
    mediaType: 'application/x-apple-aspen-config',
    places: ['macOS: a configuration profile, distributed by your device management'],
    effect: 'VS Code runs only servers that this organization published in its registry.',
    allowsOnlyPublished: true,
    write: configurationProfile,
  },
  codex: {
    title: 'Codex',
    fileName: 'config.toml',
    mediaType: 'application/toml',
    places: ['Linux and macOS: /etc/codex/config.toml', 'For one person: ~/.codex/config.toml'],
    effect: 'Adds these servers. Merge the file with the existing settings.',
    allowsOnlyPublished: false,
    write: codexConfiguration,
  },
  cursor: {
    title: 'Cursor',
    fileName: 'mcp.json',
    mediaType: jsonType,
    places: ['~/.cursor/mcp.json', 'Windows: %USERPROFILE%\\.cursor\\mcp.json'],
    effect: 'Adds these servers for one person. Merge the file with the existing one.',
    allowsOnlyPublished: false,
    write: (plan) => pretty({ mcpServers: byName(plan, entryOf) }),
  },
  links: {
    title: 'Links and bundles for people',
    fileName: 'links.json',
    mediaType: jsonType,
    places: ['For your intranet or an e-mail'],
    effect:
      'For each server: a link that adds it to Cursor, one for VS Code, the command for Claude Code, and the address of its bundle (.mcpb).',
    allowsOnlyPublished: false,
    write: (plan) => pretty(plan.servers.map(({ name, title }) => linksOf(plan, { name, title }))),
  },
} as const satisfies Readonly<Record<string, AssistantFile>>;

export type AssistantFileName = keyof typeof assistantFiles;

export function isAssistantFile(name: string): name is AssistantFileName {
  return Object.hasOwn(assistantFiles, name);
}

/** The warning for a file that allows only published servers while there are none. */
export const nothingPublished =
  'nothing is published in the registry: with this file, VS Code runs no MCP server; publish servers first';

export const assistantFileNames = Object.keys(assistantFiles).filter(isAssistantFile);

function urlOf({ base, organization }: DeploymentPlan, server: string): string {
  return `${base}/mcp/${organization}/${server}`;
}

function commandOf(plan: DeploymentPlan, server: string): readonly string[] {
  return ['latchkey', urlOf(plan, server)];
}

function byName(
  plan: DeploymentPlan,
  entry: (plan: DeploymentPlan, server: string) => object,
): Record<string, object> {
  return Object.fromEntries(plan.servers.map(({ name }) => [name, entry(plan, name)]));
}

/** The entry of a server in a file of the form `mcpServers`. */
function entryOf(plan: DeploymentPlan, server: string): object {
  if (plan.connection === 'direct') return { type: 'http', url: urlOf(plan, server) };
  const [command, ...args] = commandOf(plan, server);
  return { command, args };
}

/** The entry of a server for VS Code, which requires the type. */
function typedEntryOf(plan: DeploymentPlan, server: string): object {
  return plan.connection === 'direct'
    ? entryOf(plan, server)
    : { type: 'stdio', ...entryOf(plan, server) };
}

/** The links that add one server to assistants. */
export function linksOf(
  plan: DeploymentPlan,
  { name, title }: { readonly name: string; readonly title: string },
) {
  const entry = entryOf(plan, name);
  const config = encodeURIComponent(Buffer.from(JSON.stringify(entry)).toString('base64'));
  const typed = encodeURIComponent(JSON.stringify({ name, ...typedEntryOf(plan, name) }));
  const url = urlOf(plan, name);
  return {
    server: name,
    title: title || name,
    cursor: `cursor://anysphere.cursor-deeplink/mcp/install?name=${name}&config=${config}`,
    vscode: `vscode:mcp/install?${typed}`,
    claudeCode:
      plan.connection === 'direct'
        ? `claude mcp add --transport http ${name} ${url}`
        : `claude mcp add ${name} -- latchkey ${url}`,
    bundle: `${plan.base}/download/${plan.organization}/${name}.mcpb`,
  };
}

function vscodePolicies({ registryUrl }: DeploymentPlan) {
  return { ChatMCP: 'registryOnly', McpGalleryServiceUrl: registryUrl };
}

function registryFile(plan: DeploymentPlan): string {
  const values = Object.entries(vscodePolicies(plan)).map(
    ([name, value]) => `"${name}"="${value}"`,
  );
  const lines = [
    'Windows Registry Editor Version 5.00',
    '',
    '[HKEY_LOCAL_MACHINE\\SOFTWARE\\Policies\\Microsoft\\VSCode]',
    ...values,
    '',
  ];
  return lines.join('\r\n');
}

function configurationProfile(plan: DeploymentPlan): string {
  const { registryUrl, organization } = plan;
  const identifier = `latchkey.${organization}.vscode`;
  const policies = Object.entries(vscodePolicies(plan)).flatMap(([name, value]) => [
    `      <key>${name}</key>`,
    `      <string>${xml(value)}</string>`,
  ]);
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    '<plist version="1.0">',
    '<dict>',
    '  <key>PayloadType</key>',
    '  <string>Configuration</string>',
    '  <key>PayloadVersion</key>',
    '  <integer>1</integer>',
    '  <key>PayloadIdentifier</key>',
    `  <string>${identifier}</string>`,
    '  <key>PayloadUUID</key>',
    `  <string>${uuidOf(`profile ${registryUrl}`)}</string>`,
    '  <key>PayloadDisplayName</key>',
    `  <string>MCP servers of ${organization} for VS Code</string>`,
    '  <key>PayloadScope</key>',
    '  <string>System</string>',
    '  <key>PayloadContent</key>',
    '  <array>',
    '    <dict>',
    '      <key>PayloadType</key>',
    '      <string>com.microsoft.VSCode</string>',
    '      <key>PayloadVersion</key>',
    '      <integer>1</integer>',
    '      <key>PayloadIdentifier</key>',
    `      <string>${identifier}.policies</string>`,
    '      <key>PayloadUUID</key>',
    `      <string>${uuidOf(`policies ${registryUrl}`)}</string>`,
    ...policies,
    '    </dict>',
    '  </array>',
    '</dict>',
    '</plist>',
    '',
  ];
  return lines.join('\n');
}

/** The same UUID for the same text, so that a newer profile replaces the one before. */
function uuidOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex').toUpperCase();
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `5${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
  ];
  return [...parts, hex.slice(20, 32)].join('-');
}

function xml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function codexConfiguration(plan: DeploymentPlan): string {
  const tables = plan.servers.map(({ name }) => {
    const [command, ...args] = commandOf(plan, name);
    // A JSON text of ASCII is a basic string of TOML.
    const settings =
      plan.connection === 'direct'
        ? [`url = ${JSON.stringify(urlOf(plan, name))}`]
        : [`command = ${JSON.stringify(command)}`, `args = ${JSON.stringify(args)}`];
    return [`[mcp_servers.${name}]`, ...settings, ''].join('\n');
  });
  return tables.join('\n');
}

function pretty(value: object): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}
