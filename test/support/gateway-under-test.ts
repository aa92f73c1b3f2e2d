import { z } from 'zod';

import { insertOrganization } from '#server/db/organizations';
import type { Stores } from '#server/app/stores';
import { openDatabaseIn } from './open-database.ts';
import type { NodePrograms } from './node-cluster.ts';
import { runningServer } from './running-server.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface GatewayOptions {
  /** The MCP server that receives the calls of `acme/fixture`. */
  readonly upstreamUrl: string;
  /** More arguments of `start`. */
  readonly start?: readonly string[];
  /** Added to the server's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Organizations that exist before the server starts. */
  readonly organizations?: readonly string[];
}

/** The real server with the endpoint `acme/fixture` and one key for it, all made by real commands. */
export interface GatewayUnderTest extends AsyncDisposable {
  /** `http://127.0.0.1:PORT` */
  readonly base: string;
  readonly port: number;
  readonly pid: number;
  readonly program: NodePrograms;
  readonly endpoint: string;
  readonly dataDir: string;
  /** Opens its database, as another process does. */
  readonly openStores: () => Promise<Stores>;
  readonly key: string;
  /** Runs an administrative command beside the server; the JSON that it printed. */
  readonly command: (...words: string[]) => Promise<Record<string, unknown>>;
  /** A new `mcp_` key of a server. */
  readonly newKey: (path: string, ...words: string[]) => Promise<{ id: string; key: string }>;
  /** An access token of a new client of a server. */
  readonly newToken: (path: string, ...scopes: string[]) => Promise<string>;
  /** What the server has written to its log. */
  readonly log: () => string;
}

export async function gatewayUnderTest({
  upstreamUrl,
  start = [],
  env = {},
  organizations = [],
}: GatewayOptions): Promise<GatewayUnderTest> {
  // Moved to the caller at the end; until then a failure disposes of what was started.
  await using stack = new AsyncDisposableStack();
  const folder = organizations.length > 0 ? stack.use(await temporaryFolder()) : undefined;
  if (folder) await makeOrganizations(folder.path, organizations);
  const given = folder && { dataDir: folder.path };
  const server = stack.use(await runningServer({ args: start, env, ...given }));
  const { base, port, program, dataDir } = server;
  const command = async (...words: string[]) => record(await server.command(...words));
  const newKey = async (path: string, ...words: string[]) => {
    const made = await command('key', 'create', path, '--name', 'a key', ...words);
    return { id: String(made['id']), key: String(made['key']) };
  };
  await command('organization', 'create', 'acme');
  await command('server', 'create', 'acme/fixture', '--http-url', upstreamUrl);
  const { key } = await newKey('acme/fixture');
  const newToken = async (path: string, ...scopes: string[]) => {
    const options = scopes.flatMap((scope) => ['--scope', scope]);
    const made = await command('client', 'create', path, '--name', 'a client', ...options);
    const form = { grant_type: 'client_credentials', ...credentials.parse(made) };
    const { json } = await server.post('/api/oauth/token', form);
    return String(json['access_token']);
  };
  const started = stack.move();
  return {
    base,
    port,
    pid: program.pid,
    program,
    endpoint: `${base}/mcp/acme/fixture`,
    dataDir,
    openStores: server.openStores,
    key,
    command,
    newKey,
    newToken,
    log: () => program.stderr,
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

async function makeOrganizations(dataDir: string, names: readonly string[]): Promise<void> {
  const stores = await openDatabaseIn(dataDir);
  for (const name of names) {
    await insertOrganization(stores.db, { id: `org_${name}`, name, createdAt: 1_700_000_000 });
  }
  await stores.close();
}

const credentials = z.object({ client_id: z.string(), client_secret: z.string() });

/** A JSON object, or a list as an object by index. */
function record(value: unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(Object(value)));
}
