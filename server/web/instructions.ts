import type { Scope } from '#model/scopes';
import type { ProgramFile } from '#download/program-files';
import {
  bundlePath,
  type BundleOffer,
  downloadPath,
  startWords,
  typedInstallation,
  typedStart,
  type ProxyReference,
} from '#download/proxy-reference';
import { html, type Html } from './html.ts';
import { copyButton } from './tables.ts';

/** How an assistant reaches a server: the endpoint, and the credential just created. */
interface ConnectionMade {
  readonly organization: string;
  /** The name of the server, and of the entry in a configuration. */
  readonly name: string;
  /** The MCP endpoint. */
  readonly url: string;
  readonly credential:
    | {
        readonly kind: 'client';
        readonly clientId: string;
        readonly clientSecret: string;
        readonly scopes: readonly Scope[];
      }
    | { readonly kind: 'key'; readonly apiKey: string }
    /** No credential: the person signs in in the browser. */
    | { readonly kind: 'person' };
}

/** A command to type; `short` is the same command for a computer where latchkey is installed. */
interface TypedCommand {
  readonly heading: string;
  readonly help: string;
  readonly text: string;
  readonly short: string;
}

interface AssistantConfiguration {
  /** A part of ids in the page. */
  readonly id: string;
  readonly assistant: string;
  /** Where to put the text, in a sentence. */
  readonly where: string;
  readonly text: string;
}

/** The ways to connect to a server, the safest first. */
export interface ConnectionInstructions {
  readonly commands: readonly TypedCommand[];
  /** The path of the bundle that signs a person in. */
  readonly bundle: string | undefined;
  /** Whether the page tells the reader how to build a bundle that is missing. */
  readonly isForAdministrators: boolean;
  /** A note about secrets to read before a configuration is pasted. */
  readonly risk: string;
  readonly configurations: readonly AssistantConfiguration[];
  readonly proxy: ProxyReference;
}

export function connectionInstructions(
  made: ConnectionMade,
  proxy: ProxyReference,
  { isForAdministrators = false } = {},
): ConnectionInstructions {
  const { organization, name, credential } = made;
  const isPerson = credential.kind === 'person';
  return {
    commands: commandsFor(made, proxy),
    bundle: isPerson ? bundlePath(organization, name) : undefined,
    isForAdministrators,
    risk: isPerson
      ? 'These configurations contain no secret. Do not add one: every program that you run can read such a file.'
      : 'These configurations contain the secret: every program that you run, and every backup, can read it in the file.',
    configurations: assistantConfigurations(made, proxy),
    proxy,
  };
}

const whatSetupDoes =
  'adds the server to the assistants you choose, and lists the tools of the server to prove that it works.';

function commandsFor({ name, url, credential }: ConnectionMade, proxy: ProxyReference) {
  const command = (heading: string, help: string, words: string): TypedCommand => ({
    heading,
    help,
    text: `${typedStart(proxy)} ${words}`,
    short: `latchkey ${words}`,
  });
  if (credential.kind === 'person') {
    const help = `In a terminal, with Node.js 22.19 or newer. The command opens your browser to sign you in, ${whatSetupDoes}`;
    return [command('Set up your assistants with one command', help, `setup ${url}`)];
  }
  const isKey = credential.kind === 'key';
  const what = isKey ? 'key' : 'client secret';
  const options = isKey ? '--api-key' : `--client-id ${credential.clientId} --client-secret`;
  const keeps = `asks for the ${what} and keeps it in the keychain`;
  return [
    command(
      'Set up your assistants with one command',
      `In a terminal, with Node.js 22.19 or newer. The command ${keeps}. Then it ${whatSetupDoes}`,
      `setup ${url} ${options}`,
    ),
    command(
      `Or only store the ${what} in the keychain`,
      `The command ${keeps}. Afterwards, an assistant or a script starts the connection with the command “latchkey ${name}”.`,
      `add ${name} ${url} ${options}`,
    ),
  ];
}

/** The configurations for a connection, ready to paste, for known assistants and for others. */
function assistantConfigurations(
  made: ConnectionMade,
  proxy: ProxyReference,
): readonly AssistantConfiguration[] {
  const { name, url } = made;
  const env = environment(made);
  const [command, ...words] = startWords(proxy);
  const entry = { command, args: [...words, url], ...(env && { env }) };
  const servers = pretty({ mcpServers: { [name]: entry } });
  return [
    {
      id: 'claude-desktop',
      assistant: 'Claude Desktop',
      where:
        'Settings → Developer → Edit Config opens claude_desktop_config.json. Restart Claude Desktop after the change.',
      text: servers,
    },
    {
      id: 'claude-code',
      assistant: 'Claude Code',
      where: 'In mcpServers in ~/.claude.json, for all your projects.',
      text: servers,
    },
    {
      id: 'cursor',
      assistant: 'Cursor',
      where: 'In ~/.cursor/mcp.json.',
      text: servers,
    },
    {
      id: 'vs-code',
      assistant: 'VS Code',
      where: 'The command “MCP: Open User Configuration” opens mcp.json.',
      text: pretty({ servers: { [name]: { type: 'stdio', ...entry } } }),
    },
    {
      id: 'gemini-cli',
      assistant: 'Gemini CLI',
      where: 'In ~/.gemini/settings.json.',
      text: servers,
    },
    plain(made, proxy),
  ];
}

function environment({ credential }: ConnectionMade): Record<string, string> | undefined {
  if (credential.kind === 'person') return undefined;
  if (credential.kind === 'key') return { LATCHKEY_API_KEY: credential.apiKey };
  const { clientId, clientSecret, scopes } = credential;
  return { LATCHKEY_OAUTH: JSON.stringify({ clientId, clientSecret, scopes }) };
}

function plain(
  { name, url, credential }: ConnectionMade,
  proxy: ProxyReference,
): AssistantConfiguration {
  if (credential.kind === 'person') {
    const where = 'Assistants that speak Streamable HTTP and OAuth need only the URL.';
    return { id: 'plain', assistant: 'URL', where, text: url };
  }
  if (credential.kind === 'key') {
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`;
    const lines = [
      `curl ${url}`,
      `-H 'X-API-Key: ${credential.apiKey}'`,
      `-H 'Content-Type: application/json'`,
      `-d '${body}'`,
    ];
    const where = 'Any HTTP client can send the key in the header X-API-Key.';
    return { id: 'plain', assistant: 'curl', where, text: lines.join(' \\\n  ') };
  }
  const { clientId, clientSecret, scopes } = credential;
  const oauth = { clientId, clientSecret, scopes };
  return {
    id: 'plain',
    assistant: 'oauth object',
    where: `For assistants that accept an oauth object. The proxy reads it too: ${typedStart(proxy)} ${name} --config FILE`,
    text: pretty({ mcpServers: { [name]: { url, oauth } } }),
  };
}

function pretty(value: object): string {
  return JSON.stringify(value, null, 2);
}

/** The ways to connect in their order: a command, the bundle, and configurations to paste behind "Other". */
export function instructionList(instructions: ConnectionInstructions): Html {
  const { commands, bundle, isForAdministrators, risk, configurations, proxy } = instructions;
  return html`<div class="ways">
${commands.map(
  ({ heading, help, text, short }) =>
    html`<div class="group">
<h3>${heading}</h3>
<p class="help">${help}</p>
${codeBlock({ text, name: `the command: ${heading}`, label: heading })}
<p class="help">If latchkey is installed: <code>${unbrokenWords(short)}</code></p>
</div>`,
)}
${executablesNote(proxy)}
${bundle !== undefined && bundleLink(bundle, proxy.bundles, isForAdministrators)}
<details class="other">
<summary>Other</summary>
<div class="group">
<p class="help">${risk}</p>
${configurationTabs(configurations)}
</div>
</details>
</div>
${proxySource(proxy)}`;
}

const systems: Readonly<Record<string, string>> = {
  darwin: 'macOS',
  win32: 'Windows',
  linux: 'Linux',
};

/** `Linux x64`, `macOS arm64` */
export function systemName({ platform, arch }: Pick<ProgramFile, 'platform' | 'arch'>): string {
  return `${systems[platform] ?? platform} ${arch}`;
}

/** The id of the heading above the executables on the download page. */
export const executablesId = 'executables';

/** Where to get the proxy for a computer without Node.js, if this server offers that. */
export function executablesNote({ programs }: Pick<ProxyReference, 'programs'>): Html | undefined {
  const executables = programs.filter(({ kind }) => kind === 'executable');
  if (executables.length === 0) return undefined;
  return html`<p class="help">Without Node.js: <a href="${downloadPath}#${executablesId}">download latchkey as one file</a> for ${executables.map(systemName).join(', ')}.</p>`;
}

/** A note about the bundles of this server, beside the link to one or, if there is none, instead of the link. */
export function bundleNote(bundles: BundleOffer, isForAdministrators: boolean): Html | undefined {
  switch (bundles.state) {
    case 'building':
      return html`<p class="help">The one-click bundle is being built. Reload this page in a few seconds.</p>`;
    case 'missing':
      return html`<p class="help">The one-click bundle has not been built. ${isForAdministrators ? howToBuild : 'Use the command instead.'}</p>`;
    case 'ready': {
      const { platforms } = bundles;
      const others = Object.keys(systems).filter((platform) => !platforms.includes(platform));
      if (platforms.length === 0 || others.length === 0) return undefined;
      const names = platforms.map((platform) => systems[platform] ?? platform).join(' and ');
      return html`<p class="help">It works on ${names}. On other systems, use the command. ${isForAdministrators && forOthers}</p>`;
    }
  }
}

const howToBuild = html`Run <code>npm run bundle</code> in the folder of the server’s source code, then reload this page. The server’s log has the reason.`;
const forOthers = html`For all systems, run <code>npm run bundle</code> in the folder of the server’s source code, with access to the npm registry, and restart the server.`;

function bundleLink(path: string, bundles: BundleOffer, isForAdministrators: boolean): Html {
  return html`<div class="group">
<h3>Or open a bundle</h3>
${
  bundles.state === 'ready' &&
  html`<p class="help">Claude Desktop and other assistants open it with a double click. It contains no secret: your browser opens to sign you in.</p>
<p><a class="button" href="${path}" download>Download bundle (.mcpb)</a></p>`
}
${bundleNote(bundles, isForAdministrators)}
</div>`;
}

/** The configurations of assistants in tabs. They are radio buttons, so they work by keyboard and without scripts. */
function configurationTabs(configurations: readonly AssistantConfiguration[]): Html {
  return html`<fieldset class="tabs">
<legend>Ready to paste</legend>
${configurations.map(
  ({ id, assistant }, index) =>
    html`<input type="radio" name="assistant" id="tab-${id}"${index === 0 && html` checked`}><label for="tab-${id}">${assistant}</label> `,
)}
${configurations.map(
  ({ id, assistant, where, text }) =>
    html`<div class="panel panel-${id}">
<p class="help">${where}</p>
${codeBlock({ text, name: `the configuration for ${assistant}`, label: `Configuration for ${assistant}` })}
</div>`,
)}
</fieldset>`;
}

export interface AgentStep {
  readonly heading: string;
  /** The explanation of the step, in sentences. */
  readonly help: string;
  /** Text to write or type, ready to paste. */
  readonly text: string;
}

const exampleUrl = 'http://127.0.0.1:3000/mcp';

/**
 * How to run an agent: its file, its key, the agent itself, and a service. `servers` are the servers that use it, now or soon; `urls`
 * has their URLs, where known.
 */
export function agentSteps(
  base: string,
  proxy: ProxyReference,
  servers: readonly string[] = [],
  urls: Readonly<Record<string, string>> = {},
): readonly AgentStep[] {
  const at = `--server-url ${base}`;
  const names = servers.length > 0 ? servers : ['crm'];
  const served = Object.fromEntries(names.map((name) => [name, { url: urls[name] ?? exampleUrl }]));
  return [
    {
      heading: 'List the MCP servers',
      help: 'Write the file agent.json on a machine in your network with Node.js 22.19 or newer. It lists each MCP server by the name of the server here, with the URL in your network, or with command and args.',
      text: JSON.stringify({ servers: served }, null, 2),
    },
    {
      heading: 'Store the key',
      help: 'The command asks for the key and keeps it in the keychain. On a machine without a keychain, skip this step: write the key into a file that only its owner can read, and add --key-file FILE to the next commands.',
      text: `${typedStart(proxy)} agent login ${at}`,
    },
    {
      heading: 'Run it',
      help: 'The agent prints what it serves, and its page here shows Connected.',
      text: `${typedStart(proxy)} agent ${at} --config agent.json`,
    },
    {
      heading: 'Keep it running',
      help: 'Installs a systemd or launchd service that runs under your account. Without --user, the service runs for the whole machine and needs --key-file.',
      text: `${typedInstallation(proxy)}\nlatchkey agent install --user ${at} --config agent.json`,
    },
  ];
}

export function agentStepList(steps: readonly AgentStep[]): Html {
  return html`<ol class="steps">
${steps.map(
  ({ heading, help, text }) =>
    html`<li>
<h3>${heading}</h3>
<p class="help">${help}</p>
${codeBlock({ text, name: `the text: ${heading}`, label: heading })}
</li>`,
)}
</ol>`;
}

/** The source of the proxy that the instructions run. */
export function proxySource({ fileName, sha256 }: ProxyReference): Html {
  return html`<p class="help">
The proxy comes from this server:
<a href="/download/">${fileName}</a>${sha256 ? html`, SHA-256 <code>${sha256}</code>.` : '. It could not be packed: the server’s log has the reason.'}
</p>`;
}

/** Text to copy; `name` says what is copied, `label` what is shown. */
export function codeBlock({
  text,
  name,
  label,
}: {
  readonly text: string;
  readonly name: string;
  readonly label: string;
}): Html {
  return html`<div class="code">
${copyButton(text, name)}
<pre tabindex="0" role="region" aria-label="${label}"><code>${unbrokenWords(text)}</code></pre>
</div>`;
}

/** Text in which no line breaks inside an option such as `--api-key`. */
function unbrokenWords(text: string): readonly (Html | string)[] {
  return text
    .split(/((?<=^|\s)-[\w-]+)/)
    .map((part) => (part.startsWith('-') ? html`<span class="word">${part}</span>` : part));
}
