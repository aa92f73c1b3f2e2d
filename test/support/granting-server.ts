import type { Role } from '#server/model/roles';
import { startSession } from '#server/accounts/sessions';
import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { insertServer } from '#server/db/servers';
import { jsonLog } from '#server/log/log';
import { createClient } from '#server/admin/create-credentials';
import { ordinaryScopes } from '#server/model/scopes';
import { hashSecret } from '#server/secrets/secrets';
import { serve } from '#server/app/serve';
import { openStores, type Stores } from '#server/app/stores';
import { cookieName } from '#server/web/page-request';
import { pkcePair } from './authorization-server.ts';
import type { FakeClock } from './fake-clock.ts';
import { freePort } from './loopback.ts';
import { clusterStores, nodeCluster, nodesOfTests } from './node-cluster.ts';
import { startProgram } from './processes.ts';
import { serverLauncher, serverStart } from './programs.ts';
import { natsUrl } from './requirements.ts';
import { temporaryFolder } from './temporary-folder.ts';

type Fields = Readonly<Record<string, string | undefined>>;
type RequestHeaders = Readonly<Record<string, string>>;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly json: Record<string, unknown>;
}

/** The browser of a person who is signed in, as a server sees it. */
export interface Browser {
  readonly cookie: string;
  readonly userId: string;
}

export interface GrantingServerOptions {
  /** With a clock the server runs in this process, and the test turns the time. */
  readonly clock?: FakeClock;
  /** For a server in this process: fetches the documents of clients. */
  readonly fetchDocument?: (url: string) => Promise<string>;
  /** For a server in this process: the hosts that it may reach. */
  readonly outboundHosts?: readonly string[];
  readonly args?: readonly string[];
}

/**
 * A server that listens, with `acme/sales` and `acme/support` (the demo), an OAuth client of `acme/sales`, and people of acme. It is a
 * process of its own, or several nodes with `TEST_NODES`, unless the test brings a clock.
 */
export interface GrantingServer extends AsyncDisposable {
  readonly base: string;
  readonly dataDir: string;
  /** Its database, as an administrative command uses it. */
  readonly stores: Stores;
  readonly client: { readonly id: string; readonly secret: string };
  readonly redirectUri: string;

  /** Signs in a person of acme. */
  browser(role?: Role): Promise<Browser>;

  /** `GET /oauth/consent` with the right parameters, except those in `but`; no redirect is followed. */
  authorize(browser: Browser | undefined, but?: Fields, more?: string): Promise<Response>;

  /** Presses a button of a consent page. */
  decide(browser: Browser, page: string, decision: 'allow' | 'deny'): Promise<Response>;

  /** Asks for authorization, allows it, and returns the code. */
  code(browser: Browser, but?: Fields): Promise<{ code: string; verifier: string }>;

  post(path: string, fields: Fields, headers?: RequestHeaders): Promise<Answer>;

  /** Redeems a code with the right fields, except those in `but`. */
  redeem(issued: { code: string; verifier: string }, but?: Fields): Promise<Answer>;

  /** Gets a code and redeems it. */
  signIn(browser: Browser, but?: Fields): Promise<{ accessToken: string; refreshToken: string }>;

  refresh(refreshToken: string, but?: Fields): Promise<Answer>;

  /** The status of `tools/list` with this token. */
  call(accessToken: string): Promise<number>;

  /** Kills its process immediately, as if the power had failed. */
  killed(): Promise<void>;

  /** Starts the server again after `killed`, at the same address. */
  again(): Promise<void>;
}

/** The script that `node` runs as `latchkey-server`. */
export const launcher = serverLauncher;

export async function grantingServer(options: GrantingServerOptions = {}): Promise<GrantingServer> {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await temporaryFolder('granting'));
  const { base, stores, killed, again } = await started(folder.path, options, stack);
  const redirectUri = 'http://127.0.0.1:49152/callback';
  const { clock = { now: () => Math.floor(Date.now() / 1000) } } = options;
  const createdAt = clock.now();
  await insertOrganization(stores.db, { id: 'org_acme', name: 'acme', createdAt });
  for (const name of ['sales', 'support']) {
    const ids = { id: `srv_${name}`, targetId: `target_${name}` };
    const place = { ...ids, organizationId: 'org_acme', name };
    await insertServer(stores.db, { ...place, upstream: { kind: 'demo' }, createdAt });
  }
  const client = await createClient(
    {
      name: 'Claude',
      serverId: 'srv_sales',
      scopes: [...ordinaryScopes],
      redirectUris: [
        'http://127.0.0.1/callback',
        'http://[::1]/callback',
        'https://app.example/cb',
      ],
      jwks: undefined,
    },
    { db: stores.db, clock },
  );
  const { challenge, verifier } = pkcePair();
  let people = 0;
  const opened = stack.move();

  const made: GrantingServer = {
    base,
    dataDir: folder.path,
    stores,
    client,
    redirectUri,
    async browser(role = 'member') {
      people += 1;
      const userId = `user_${people}`;
      const user = { id: userId, email: `person${people}@example.com`, createdAt };
      await insertUser(stores.db, user, { organizationId: 'org_acme', role });
      const visit = { address: '127.0.0.1', userAgent: 'test', requestId: 'test' };
      const { sessionToken } = await startSession({ userId, factors: 1 }, visit, {
        ...stores,
        clock,
      });
      return { userId, cookie: `${cookieName('latchkey', base)}=${sessionToken}` };
    },
    authorize(browser, but = {}, more = '') {
      const query = new URLSearchParams(
        entries({
          client_id: client.id,
          response_type: 'code',
          redirect_uri: redirectUri,
          scope: 'mcp:tools:read,mcp:tools:execute',
          state: 'st/ate',
          code_challenge: challenge,
          code_challenge_method: 'S256',
          ...but,
        }),
      );
      const headers = browser ? { cookie: browser.cookie } : {};
      const url = `${base}/oauth/consent?${query.toString()}${more}`;
      return fetch(url, { headers, redirect: 'manual' });
    },
    decide(browser, page, decision) {
      const fields = { ...hiddenFields(page, '/oauth/consent'), decision };
      return fetch(`${base}/oauth/consent`, {
        method: 'POST',
        headers: { cookie: browser.cookie, origin: base },
        body: new URLSearchParams(fields),
        redirect: 'manual',
      });
    },
    async code(browser, but) {
      const page = await made.authorize(browser, but);
      const answer = await made.decide(browser, await page.text(), 'allow');
      const location = new URL(answer.headers.get('location') ?? 'none:');
      return { code: location.searchParams.get('code') ?? '', verifier };
    },
    async post(path, fields, headers = {}) {
      const body = new URLSearchParams(entries(fields));
      return answerOf(await fetch(base + path, { method: 'POST', headers, body }));
    },
    redeem: ({ code, verifier: proof }, but = {}) =>
      made.post('/api/oauth/token', {
        grant_type: 'authorization_code',
        code,
        code_verifier: proof,
        client_id: client.id,
        redirect_uri: redirectUri,
        ...but,
      }),
    async signIn(browser, but) {
      const { status, json } = await made.redeem(await made.code(browser, but));
      if (status !== 200) throw new Error(JSON.stringify(json));
      return {
        accessToken: String(json['access_token']),
        refreshToken: String(json['refresh_token']),
      };
    },
    refresh: (refreshToken, but = {}) =>
      made.post('/api/oauth/token', {
        grant_type: 'refresh_token',
        refresh_token: refreshToken,
        client_id: client.id,
        ...but,
      }),
    async call(accessToken) {
      const answer = await fetch(`${base}/mcp/acme/sales`, {
        method: 'POST',
        headers: { authorization: `Bearer ${accessToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
      });
      await answer.arrayBuffer();
      return answer.status;
    },
    killed,
    again,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
  return made;
}

async function started(
  dataDir: string,
  { clock, fetchDocument, outboundHosts, args = [] }: GrantingServerOptions,
  stack: AsyncDisposableStack,
): Promise<Pick<GrantingServer, 'base' | 'stores' | 'killed' | 'again'>> {
  if (!clock && nodesOfTests > 1) return startedCluster(args, stack);
  if (!clock) {
    const programs = stack.use(new AsyncDisposableStack());
    const start = async (port: string) => {
      const program = startProgram(process.execPath, {
        args: [...serverStart(), '--port', port, '--data-dir', dataDir, ...args],
      });
      programs.use(program);
      const [, base = ''] = await program.line(/^listening on (\S+)/m);
      return { program, base };
    };
    const first = await start('0');
    const { base } = first;
    let { program } = first;
    const stores = await openStores(dataDir);
    stack.defer(() => stores.close());
    return {
      base,
      stores,
      async killed() {
        program.kill('SIGKILL');
        await program.exited;
      },
      async again() {
        ({ program } = await start(new URL(base).port));
      },
    };
  }
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  const server = await serve({
    dataDir,
    masterKeyFile: undefined,
    host: '127.0.0.1',
    port,
    base,
    trustedProxies: [],
    firstOrganization: undefined,
    oidc: undefined,
    allowedOrigins: [],
    dynamicRegistration: args.includes('--dynamic-registration'),
    ...(fetchDocument && { fetchDocument }),
    ...(outboundHosts && { outboundHosts }),
    maxBodyBytes: 65_536,
    proxy: { version: '0.0.0', source: { file: 'nobody downloads it here', bundle: 'none' } },
    nodePath: process.execPath,
    clock,
    log: jsonLog('silent', { write: () => true }),
  });
  stack.defer(() => server.close());
  const notHere = () => Promise.reject(new Error('it runs in this process'));
  return { base, stores: server.stores, killed: notHere, again: notHere };
}

/** Several nodes on a shared database, used as if they were one server. */
async function startedCluster(
  args: readonly string[],
  stack: AsyncDisposableStack,
): Promise<Pick<GrantingServer, 'base' | 'stores' | 'killed' | 'again'>> {
  const words = ['--nats-url', natsUrl(), ...args];
  const cluster = stack.use(await nodeCluster({ size: nodesOfTests, args: words }));
  const stores = await clusterStores(cluster);
  stack.defer(() => stores.close());
  return {
    base: cluster.base,
    stores,
    async killed() {
      cluster.program.kill('SIGKILL');
      await Promise.all(cluster.nodes.map(({ program }) => program.exited));
    },
    again: () => cluster.restart(),
  };
}

/** The hidden fields of the form of a page that posts to `action`. */
export function hiddenFields(page: string, action: string): Record<string, string> {
  const from = page.indexOf(`action="${action}"`);
  const form = page.slice(from, page.indexOf('</form>', from));
  const inputs = form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g);
  if (from < 0) throw new Error(`no form for ${action} in:\n${page}`);
  return Object.fromEntries([...inputs].map(([, name = '', value = '']) => [name, value]));
}

/** The hash under which the server stores the session of a cookie. */
export const cookieHash = ({ cookie }: Browser) => hashSecret(cookie.split('=')[1] ?? '');

function entries(fields: Fields): [string, string][] {
  return Object.entries(fields).filter((one): one is [string, string] => one[1] !== undefined);
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const json: Record<string, unknown> = text.startsWith('{') ? JSON.parse(text) : {};
  return { status: response.status, headers: response.headers, json };
}
