import { findOrganization } from '#db/organizations';
import { countServerDependents } from '#db/server-dependents';
import { findServer } from '#db/servers';
import { clientCreate } from '#admin/clients';
import { keyCreate } from '#admin/keys';
import { organizationCreate } from '#admin/organizations';
import { serverCreate } from '#admin/servers';
import type { Clock } from '#model/clock';
import { ordinaryScopes } from '#model/scopes';
import { administer } from '#admin/command';
import { type Stores } from '#admin/positionals';

const organization = 'demo';
const name = 'library';

export interface DemoPlace {
  readonly base: string;
  /** The program and arguments that start the proxy on this host. */
  readonly proxyCommand: readonly [string, ...string[]];
  /** The same as a person types it in the current folder. */
  readonly typedProxy: string;
  /** Completes the words of an administrative command to what a person types. */
  readonly typedServer: (words: string) => string;
}

/**
 * Creates `demo/library` if it does not exist, and returns the lines that say how to use it.
 *
 * With `showsCredentials`, it also creates an OAuth client and an MCP key there, unless there are some, and the lines show their
 * secrets this one time.
 */
export async function demoBanner(
  place: DemoPlace,
  showsCredentials: boolean,
  { stores, clock }: { stores: Stores; clock: Clock },
): Promise<string[]> {
  const ports = { stores, clock };
  const { db } = stores;
  if (!(await findOrganization(db, organization))) {
    await administer(organizationCreate, { name: organization }, ports);
  }
  const at = { organization, server: name };
  const known = await findServer(db, organization, name);
  const server =
    known ??
    (await administer(
      serverCreate,
      { organization, name, upstream: { kind: 'demo' } as const },
      ports,
    ));
  const lines = usageLines(place);
  if (!showsCredentials) {
    return [
      ...lines,
      'For a client secret, an API key and a curl command, stop the server and run:',
      '',
      `  ${place.typedServer('start --demo --show-demo-credentials')}`,
      '',
    ];
  }
  const { activeClients, activeKeys } = await countServerDependents(db, server.id, clock.now());
  if (activeClients + activeKeys > 0) return [...lines, ...renewalLines(place)];

  const made = await administer(
    clientCreate,
    { ...at, name: 'Demo assistant', scopes: ordinaryScopes },
    ports,
  );
  const client = { id: made.clientId, secret: made.clientSecret ?? '' };
  const { key } = await administer(keyCreate, { ...at, name: 'Demo key' }, ports);
  return [...lines, ...credentialLines(place, client, key)];
}

function usageLines({ base, typedProxy }: DemoPlace): string[] {
  const url = `${base}/mcp/${organization}/${name}`;
  return [
    `The demo MCP endpoint is ${url}`,
    'To set up your assistants, run this in another terminal, and sign in with the browser:',
    '',
    `  ${typedProxy} setup ${url}`,
    '',
  ];
}

function credentialLines(
  { base, proxyCommand, typedProxy }: DemoPlace,
  client: { id: string; secret: string },
  key: string,
): string[] {
  const url = `${base}/mcp/${organization}/${name}`;
  const oauth = { clientId: client.id, clientSecret: client.secret, scopes: ordinaryScopes };
  const [command, ...args] = proxyCommand;
  const entry = { command, args: [...args, url], env: { LATCHKEY_OAUTH: JSON.stringify(oauth) } };
  return [
    'To keep the API key below in the keychain instead of a file:',
    '',
    `  ${typedProxy} add ${name} ${url} --api-key`,
    '',
    'Or paste a configuration into an assistant (Claude Desktop, Cursor, Gemini CLI). It contains the client',
    'secret in plain text, which every program that you run can read. This server shows it, and the key, only once.',
    '',
    JSON.stringify({ mcpServers: { demo: entry } }, null, 2),
    '',
    `Or store it in a file such as demo.json, for ${typedProxy} demo --config demo.json:`,
    '',
    JSON.stringify({ mcpServers: { demo: { url, oauth } } }, null, 2),
    '',
    'Or call the endpoint directly:',
    '',
    `curl ${url} \\`,
    `  -H 'X-API-Key: ${key}' \\`,
    "  -H 'Content-Type: application/json' \\",
    `  -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'`,
    '',
  ];
}

function renewalLines({ typedServer }: DemoPlace): string[] {
  const at = `${organization}/${name}`;
  const scopes = ordinaryScopes.map((scope) => `--scope ${scope}`).join(' ');
  return [
    'It already has credentials, whose secrets are shown only once. To create new ones:',
    '',
    `  ${typedServer(`client create ${at} --name "my assistant" ${scopes}`)}`,
    `  ${typedServer(`key create ${at} --name "my key"`)}`,
    '',
  ];
}
