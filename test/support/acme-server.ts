import { z } from 'zod';
import { fixtureUpstream, type FixtureUpstream } from './fixture-upstream.ts';
import {
  runningServer,
  type Answer,
  type RunningServer,
  type RunningServerOptions,
} from './running-server.ts';

/** The scopes that an assistant gets for a server. */
export const ordinaryScopes = ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read'];

export interface TestClient {
  readonly id: string;
  readonly secret: string;
}

export interface TestKey {
  readonly id: string;
  readonly key: string;
}

/** The headers that carry one credential to an MCP endpoint. */
export type Credential = Readonly<Record<string, string>>;

/** A running server with the organization `acme`, whose endpoint `acme/fixture` leads to `upstream`. */
export interface AcmeServer extends RunningServer {
  readonly upstream: FixtureUpstream;

  /** Makes an OAuth client of `acme/fixture` by the command line. */
  client(scopes?: readonly string[]): Promise<TestClient>;

  /** Makes an MCP key of `acme/fixture` by the command line. */
  key(): Promise<TestKey>;

  /** An access token by client credentials. */
  token(client: TestClient, form?: Readonly<Record<string, string>>): Promise<string>;

  /** Sends one JSON-RPC request to `acme/fixture` and accepts only JSON as the answer. */
  call(credential: Credential, method?: string, params?: object): Promise<Answer>;

  /** Begins a call of the tool `endless`, whose answer never ends. The body of the response is still unread. */
  stream(credential: Credential): Promise<Response>;
}

export function bearer(token: string): Credential {
  return { Authorization: `Bearer ${token}` };
}

/** `Authorization: Basic` of a client. RFC 6749 §2.3.1: the id and the secret are form-encoded first. */
export function basic(id: string, secret: string): Credential {
  const pair = `${encodeURIComponent(id)}:${encodeURIComponent(secret)}`;
  return { Authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
}

const clientSchema = z.object({ client_id: z.string(), client_secret: z.string() });
const keySchema = z.object({ id: z.string(), key: z.string() });
const tokenSchema = z.object({ access_token: z.string() });

export async function acmeServer(options: RunningServerOptions = {}): Promise<AcmeServer> {
  // Moved to the caller at the end; until then a failure disposes of what was started.
  await using stack = new AsyncDisposableStack();
  const upstream = stack.use(await fixtureUpstream());
  const server = stack.use(await runningServer(options));
  await server.command('organization', 'create', 'acme');
  await server.command('server', 'create', 'acme/fixture', '--http-url', upstream.url);

  const mcp = '/mcp/acme/fixture';
  const message = (credential: Credential, accept: string, body: object): RequestInit => ({
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: accept, ...credential },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, ...body }),
  });
  const started = stack.move();
  return {
    ...server,
    upstream,
    async client(scopes = ordinaryScopes) {
      const words = scopes.flatMap((scope) => ['--scope', scope]);
      const made = await server.command(
        'client',
        'create',
        'acme/fixture',
        '--name',
        'c',
        ...words,
      );
      const { client_id, client_secret } = clientSchema.parse(made);
      return { id: client_id, secret: client_secret };
    },
    key: async () =>
      keySchema.parse(await server.command('key', 'create', 'acme/fixture', '--name', 'k')),
    async token({ id, secret }, form = {}) {
      const { json } = await server.post('/api/oauth/token', {
        grant_type: 'client_credentials',
        client_id: id,
        client_secret: secret,
        ...form,
      });
      return tokenSchema.parse(json).access_token;
    },
    call: (credential, method = 'tools/list', params = {}) =>
      server.request(mcp, message(credential, 'application/json', { method, params })),
    stream(credential) {
      const version = { 'MCP-Protocol-Version': '2025-11-25' };
      const body = { method: 'tools/call', params: { name: 'endless', arguments: {} } };
      const accept = 'application/json, text/event-stream';
      return fetch(server.base + mcp, message({ ...credential, ...version }, accept, body));
    },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}
