import { declarations } from '#config/options';

/** What `latchkey --help` prints: one screen. */
export function help(): string {
  const options = Object.entries(declarations).map(([name, { value, doc, env, ...rest }]) => {
    const fallback = 'fallback' in rest ? ` (${rest.fallback})` : '';
    return `  --${name} ${value}\n      ${doc}${fallback}; ${env}`;
  });
  return `latchkey connects an AI assistant to an MCP server, as somebody.

usage: latchkey [connect] NAME|URL [options]

NAME is an entry in the configuration of Claude, Gemini CLI, Cursor or VS Code.

${options.join('\n')}

environment only, as they are secrets:
  LATCHKEY_OAUTH          {"clientId":"…","clientSecret":"…","scopes":["…"]}
  LATCHKEY_CLIENT_SECRET  the client secret alone
  LATCHKEY_API_KEY        an API key, sent as X-API-Key

examples:
  latchkey acme --config ./mcp.json
  LATCHKEY_API_KEY=mcp_… latchkey https://cloud.example.com/mcp/acme/sales
`;
}
