import type { Scope } from '#credentials/scope';
import { startWords, typedStart, type ProxyReference } from '#download/proxy-reference';

/** What an assistant needs to reach a server: the endpoint, and the credential just made. */
export interface ConnectionMade {
  /** What the entry is called in the configuration, a slug. */
  readonly name: string;
  /** The MCP endpoint. */
  readonly url: string;
  readonly credential:
    | {
        readonly kind: 'client';
        readonly clientId: string;
        /** Absent for a client that proves itself by its own keys. */
        readonly clientSecret: string;
        readonly scopes: readonly Scope[];
      }
    | { readonly kind: 'key'; readonly apiKey: string }
    /** Nothing: whoever uses it signs in by the browser. */
    | { readonly kind: 'person' };
}

/** How one assistant is told of a server. */
export interface AssistantConfiguration {
  /** Part of ids in the page. */
  readonly id: string;
  readonly assistant: string;
  /** Where the text goes, in a sentence. */
  readonly where: string;
  readonly text: string;
}

/** The same connection, ready to paste, for every assistant that we know and for those that we do not. */
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
