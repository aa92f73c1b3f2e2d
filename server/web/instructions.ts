import type { Scope } from '#oauth/scopes';
import {
  startWords,
  typedInstallation,
  typedStart,
  type ProxyReference,
} from '#download/proxy-reference';
import { html, type Html } from './html.ts';
import { copyButton } from './tables.ts';

/** How an assistant reaches a server: the endpoint, and the credential just created. */
interface ConnectionMade {
  /** The name of the entry in the configuration, a slug. */
  readonly name: string;
  /** The MCP endpoint. */
  readonly url: string;
  readonly credential:
    | {
        readonly kind: 'client';
        readonly clientId: string;
        /** Absent for a client that authenticates with its own keys. */
        readonly clientSecret: string;
        readonly scopes: readonly Scope[];
      }
    | { readonly kind: 'key'; readonly apiKey: string }
    /** No credential: the person signs in in the browser. */
    | { readonly kind: 'person' };
}

/** The configuration of one assistant. */
export interface AssistantConfiguration {
  /** A part of ids in the page. */
  readonly id: string;
  readonly assistant: string;
  /** Where to put the text, in a sentence. */
  readonly where: string;
  readonly text: string;
}

/** The same connection, ready to paste, for every assistant that we know and for others. */
export function assistantConfigurations(
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
        'Settings → Developer → Edit Config opens claude_desktop_config.json. Restart it after.',
      text: servers,
    },
    {
      id: 'claude-code',
      assistant: 'Claude Code',
      where: 'As a member of mcpServers in ~/.claude.json, for every project of yours.',
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
    const where = 'Assistants that speak Streamable HTTP and OAuth take the address alone.';
    return { id: 'plain', assistant: 'Other', where, text: url };
  }
  if (credential.kind === 'key') {
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`;
    const lines = [
      `curl ${url}`,
      `-H 'X-API-Key: ${credential.apiKey}'`,
      `-H 'Content-Type: application/json'`,
      `-d '${body}'`,
    ];
    const where = 'Anything that speaks HTTP sends the key in the header X-API-Key.';
    return { id: 'plain', assistant: 'Other', where, text: lines.join(' \\\n  ') };
  }
  const { clientId, clientSecret, scopes } = credential;
  const oauth = { clientId, clientSecret, scopes };
  return {
    id: 'plain',
    assistant: 'Other',
    where: `For assistants that take an oauth object. The proxy reads it too: ${typedStart(proxy)} ${name} --config FILE`,
    text: pretty({ mcpServers: { [name]: { url, oauth } } }),
  };
}

function pretty(value: object): string {
  return JSON.stringify(value, null, 2);
}

/** One step of starting an agent. */
export interface AgentStep {
  readonly heading: string;
  /** What it is about, in sentences. */
  readonly help: string;
  /** Text to write or type, ready to paste. */
  readonly text: string;
}

const exampleUrl = 'http://127.0.0.1:3000/mcp';

/**
 * How to run an agent: its file, its key, the agent itself, and a service. `servers` use it already, or soon will; `urls` has the
 * URLs of those that are known.
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
      heading: 'Say what it serves',
      help: 'In agent.json, on a machine of your network that has Node 22.19 or newer: each MCP server under the name that it has here, with its URL there, or with command and args.',
      text: JSON.stringify({ servers: served }, null, 2),
    },
    {
      heading: 'Give it the key',
      help: 'It asks for the key and keeps it in the keychain of that user. On a machine without one, keep the key in a file that only its owner can read, and add --key-file FILE to what follows instead.',
      text: `${typedStart(proxy)} agent login ${at}`,
    },
    {
      heading: 'Start it',
      help: 'It prints what it serves, and its page here shows Connected.',
      text: `${typedStart(proxy)} agent ${at} --config agent.json`,
    },
    {
      heading: 'Keep it running',
      help: 'As a service of yours by systemd or launchd. One of the machine, without --user, takes its key from --key-file.',
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
${codeBlock({ text, name: `what to type: ${heading}`, label: heading })}
</li>`,
)}
</ol>`;
}

/** The source of the proxy that the instructions run. */
export function proxySource({ fileName, sha256 }: ProxyReference): Html {
  return html`<p class="help">
The proxy comes from this server:
<a href="/download/">${fileName}</a>${sha256 ? html`, SHA-256 <code>${sha256}</code>.` : '. There is no copy of it at the moment; this server’s administrator finds the reason in the log.'}
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
<pre tabindex="0" role="region" aria-label="${label}"><code>${text}</code></pre>
</div>`;
}
