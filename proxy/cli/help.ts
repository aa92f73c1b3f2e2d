import { declarations, optionNames, type OptionName } from '#config/options';
import type { CommandName } from './parse-command-line.ts';

const place: OptionName[] = ['config', 'secret-store', 'secret-store-key-file', 'state-dir'];

const commands: Record<Exclude<CommandName, 'connect'>, string> = {
  login: `usage: latchkey login NAME|URL [options]

Signs in with the browser, and keeps in the keychain what that brings. On a machine without a
browser, as over SSH, it prints the page's address and takes the address that the page ends at.

${options(place)}

examples:
  latchkey login acme
  latchkey login https://cloud.example.com/mcp/acme/sales
`,
  logout: `usage: latchkey logout NAME|URL [options]

Revokes at the server what login brought, and forgets it here. When the server cannot be told, it is
forgotten all the same, and the exit code is 1.

${options(place)}

examples:
  latchkey logout acme
  latchkey logout https://cloud.example.com/mcp/acme/sales
`,
  status: `usage: latchkey status [NAME|URL] [--json] [options]

Says how a connection stands, or all that are configured. It reads this machine alone and asks no
server.

  --json
      one JSON object: {"connections":[…],"problems":[…]}
${options(place)}

examples:
  latchkey status
  latchkey status acme --json
`,
};

/** What `latchkey --help` prints, or `latchkey login --help`: one screen. */
export function help(about?: CommandName): string {
  return about === undefined || about === 'connect' ? all() : commands[about];
}

function options(names: readonly OptionName[]): string {
  const lines = names.map((name) => {
    const { value, doc, env, ...rest } = declarations[name];
    const fallback = 'fallback' in rest ? ` (${rest.fallback})` : '';
    return `  --${name} ${value}\n      ${doc}${fallback}; ${env}`;
  });
  return lines.join('\n');
}

function all(): string {
  return `latchkey connects an AI assistant to an MCP server, as somebody.

usage: latchkey [connect] NAME|URL [options]   what an assistant starts
       latchkey login  NAME|URL [options]      sign in with the browser
       latchkey logout NAME|URL [options]      revoke and forget what login brought
       latchkey status [NAME|URL] [--json]     how the connections stand

NAME is an entry in the configuration of Claude, Gemini CLI, Cursor or VS Code.

${options(optionNames)}

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
