import { declarations } from '#config/options';

/** What `latchkey --help` prints: one screen. */
export function help(): string {
  const options = Object.entries(declarations).map(([name, { value, doc, env, ...rest }]) => {
    const fallback = 'fallback' in rest ? ` (${rest.fallback})` : '';
    return `  --${name} ${value}\n      ${doc}${fallback}; ${env}`;
  });
  return `latchkey connects an AI assistant to an MCP server, as somebody.

usage: latchkey [connect] NAME|URL [options]   what an assistant starts
       latchkey login  NAME|URL [options]      sign in with the browser
       latchkey logout NAME|URL [options]      revoke and forget what login brought
       latchkey status [NAME|URL] [--json]     how the connections stand

NAME is an entry in the configuration of Claude, Gemini CLI, Cursor or VS Code.

${options.join('\n')}

environment only, as they are secrets:
  LATCHKEY_OAUTH          {"clientId":"…","clientSecret":"…","scopes":["…"]}
  LATCHKEY_CLIENT_SECRET  the client secret alone
  LATCHKEY_API_KEY        an API key, sent as X-API-Key
  LATCHKEY_PRIVATE_KEY_PASSPHRASE  opens an encrypted oauth.privateKeyFile

examples:
  latchkey login acme
  latchkey acme --config ./mcp.json
  LATCHKEY_API_KEY=mcp_… latchkey https://cloud.example.com/mcp/acme/sales
`;
}
