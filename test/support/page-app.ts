import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type {
  IdentityProvider,
  ProviderCheck,
  UpstreamIdentity,
} from '#server/accounts/openid-provider';
import { passwordHashing } from '#server/accounts/passwords';
import type { Role } from '#server/model/roles';
import { csrfToken, startSession } from '#server/accounts/sessions';
import { everyRefusal } from '#server/audit/counted-refusals';
import { consoleCalls } from '#server/console/call-server';
import { insertUser } from '#server/db/people';
import type { SessionThrough } from '#server/db/sessions';
import { bundleFor, readBundleTemplate } from '#server/download/mcp-bundle';
import { proxyReference } from '#server/download/proxy-reference';
import { EraAdapters } from '#server/gateway/era-adapters';
import { Gateway } from '#server/gateway/gateway';
import { createApp, LatePages } from '#server/app/http-app';
import { createPages } from '#server/app/pages-app';
import { jsonLog } from '#server/log/log';
import { clientResolver } from '#server/oauth/client-documents';
import { OutboundError } from '#server/outbound/checked-addresses';
import { FailedAttempts } from '#server/oauth/failed-attempts';
import { usualChecking } from '#server/model/provider-checks';
import { masterKey } from '#server/secrets/master-key';
import type { NodeRecord } from '#server/nodes/node-registry';
import { RequestRate, scimRequestsOfDirectory } from '#server/scim/request-rate';
import type { ServerHealth } from '#server/upstreams/health';
import type { Inspection } from '#server/upstreams/inspect';
import { offlineAgent } from '#server/upstreams/tunnel/connected-agent';
import { accountGrantsOf } from '#server/web/account-routes';
import type { DownloadRoutesOptions } from '#server/web/download';
import type { DashboardOptions } from '#server/web/dashboard/ports';
import { cookieName } from '#server/web/page-request';
import { authorizationServer, type AuthorizationServer } from './authorization-server.ts';
import { bundleOfBuild } from './bundle-of-build.ts';
import { fakeMac } from './fake-mac.ts';
import { freshSigningKeys } from './fresh-signing-keys.ts';
import { loopbackSetup } from './upstream-setup.ts';
import { loopbackProviders, type TxtRecords } from './provider-setup.ts';
import { loopbackMail } from './mail-setup.ts';
import { loopbackWebhooks } from './webhook-setup.ts';

/** Stands for the proxy's package. */
export const handedOut = {
  fileName: 'latchkey-1.2.3.tgz',
  bytes: Buffer.from('the proxy'),
  sha256: createHash('sha256').update('the proxy').digest('hex'),
  bundles: { state: 'ready', platforms: ['darwin', 'win32', 'linux'] },
  programs: [],
} as const;

const template = readBundleTemplate(bundleOfBuild);

/** Stands for the downloads of a server. */
export const proxyDownload: DownloadRoutesOptions['proxyDownload'] = {
  fileName: handedOut.fileName,
  copy: async () => handedOut,
  reference: async (base) => proxyReference(base, handedOut),
  bundle: async (server) => bundleFor(template, server),
  programs: async () => handedOut.programs,
  program: async () => undefined,
};

/** Stands for the nodes of the installation: one that is live, and one that is gone. */
function foundNodes(now: number): NodeRecord[] {
  const live = { instance: 'a1', name: 'node-1', version: '1.2.3', startedAt: now - 3600 };
  return [
    { ...live, seenAt: now - 1, clockSkewMs: 12, isAlive: true },
    {
      ...live,
      instance: 'b2',
      name: 'node-2 <b>',
      seenAt: now - 600,
      clockSkewMs: -2500,
      isAlive: false,
    },
  ];
}

/** A page without its footer, which contains details of the request. */
export function withoutFooter(text: string): string {
  return text.replaceAll(/<footer[\s\S]*<\/footer>/g, '');
}

/** A browser in which a person is signed in, and the CSRF token of its forms. */
export interface SignedInBrowser {
  readonly userId: string;
  readonly sessionId: string;
  readonly cookie: string;
  readonly csrfToken: string;
}

/** Stands for the MCP servers behind all servers. */
export interface FoundUpstreams {
  health: ServerHealth;
  /** The inspection of any URL, and of any server's upstream. */
  inspection: Inspection;
  /** The URLs that were inspected. */
  readonly asked: string[];
}

/** Stands for the OpenID provider of the server. */
export interface FoundProvider {
  check: ProviderCheck;
  /** The identity of the person who signs in there, or the error of the sign-in. */
  identity: UpstreamIdentity | Error;
}

export interface Sent {
  readonly path: string;
  readonly cookie: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The address of the sender; 127.0.0.1 by default. */
  readonly address?: string;
}

export interface PageAnswer {
  readonly status: number;
  readonly text: string;
  readonly location: string | undefined;
  /** The cookies for the browser, each as `name=value`. */
  readonly cookies: readonly string[];
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** The server's own routes, with every option on and without a socket; and lists of those routes. */
export interface PageApp extends AsyncDisposable {
  readonly server: AuthorizationServer;
  /** Every route that may change something, such as `POST /sign-in`. */
  readonly changing: readonly string[];
  /** Every route that shows something, such as `GET /account`. */
  readonly reading: readonly string[];
  /** What MCP servers answer to inspections; a test may put something else here. */
  readonly upstreams: FoundUpstreams;
  /** The nodes that share the database; a test may change them. */
  readonly nodes: NodeRecord[];
  /** What the OpenID provider answers; a test may put something else here. */
  readonly provider: FoundProvider;
  /** The DNS TXT records that the server finds. */
  readonly txt: TxtRecords;
  post(sent: Sent): Promise<PageAnswer>;
  get(path: string, cookie: string): Promise<PageAnswer>;
  /** Resolves when the answer begins; `text` when the server ends it. `received` returns what has come so far. */
  stream(
    path: string,
    cookie: string,
  ): Promise<{ status: number; text: Promise<string>; received: () => string }>;
  /** Asks the admin API as a program does; the answer's body is JSON. */
  api(asked: {
    readonly method: 'GET' | 'HEAD' | 'POST' | 'PATCH' | 'DELETE';
    readonly path: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: object | undefined;
    readonly address?: string;
  }): Promise<ApiAnswer>;
  /** Signs in a new person, a member of acme by default. */
  browser(
    userId: string,
    membership?: { readonly organizationId: string; readonly role: Role },
    /** How many factors the browser proved; one by default. */
    factors?: 1 | 2,
    /** The provider of an organization that opened the browser's session. */
    through?: Pick<SessionThrough, 'organizationId' | 'providerId'>,
  ): Promise<SignedInBrowser>;
}

export interface PageAppOptions extends Pick<DashboardOptions, 'auditRetentionDays'> {
  /** The cost of hashing a password, as a power of two. */
  readonly log2Cost?: number;
  /** The folder of its database, which is in memory unless given. */
  readonly dataDir?: string;
}

export async function pageApp({
  log2Cost = 8,
  dataDir,
  ...options
}: PageAppOptions = {}): Promise<PageApp> {
  const server = await authorizationServer(dataDir);
  const { base, clock, stores, ports } = server;
  const keys = await freshSigningKeys(clock);
  const unreachable = async () => {
    throw new OutboundError('unreachable', 'no test reaches another host');
  };
  const refusals = everyRefusal({ ...stores, clock });
  const nodes = foundNodes(clock.now());
  const upstreams: FoundUpstreams = {
    health: {
      status: 'connected',
      reason: undefined,
      checkedAt: clock.now(),
      protocol: '2025-11-25',
    },
    inspection: {
      outcome: 'connected',
      protocolVersion: '2025-11-25',
      tools: [],
    },
    asked: [],
  };
  const gateway = new Gateway({
    base,
    endpointUrl: ports.endpointUrl,
    tokens: ports.tokens,
    clock,
    used: () => {},
    note: () => {},
    admissions: stores.admissions,
    mac: fakeMac,
    presentationOf: () => Promise.resolve(undefined),
    upstreamOf: () => {
      throw new Error('no test comes here');
    },
    pinned: (answer) => Promise.resolve(answer),
    left: () => {},
    isAllowedOrigin: () => false,
    eras: new EraAdapters(clock),
    refused: () => {},
  });
  const provider: FoundProvider = {
    check: { outcome: 'ready' },
    identity: {
      issuer: 'https://id.example',
      subject: 'somebody there',
      email: 'somebody@example.com',
      emailProof: 'verified',
      groups: [],
      issuedAt: clock.now(),
      authentication: { amr: [] },
    },
  };
  const txt: TxtRecords = new Map();
  const providerSetup = loopbackProviders(clock, txt);
  const identityProvider: IdentityProvider = {
    name: 'Acme ID',
    issuer: 'https://id.example',
    clientId: 'latchkey',
    groupsClaim: 'groups',
    scopes: [],
    trustsEmail: false,
    checking: usualChecking,
    ask: async () => ({ outcome: 'removed' }),
    readLogout: async () => ({ outcome: 'invalid', why: 'no test comes here' }),
    check: async () => provider.check,
    begin: async ({ state }) => new URL(`https://id.example/authorize?state=${state}`),
    async finish() {
      if (provider.identity instanceof Error) throw provider.identity;
      return provider.identity;
    },
  };
  const shared = {
    base,
    failedAttempts: new FailedAttempts(clock),
    failedLogouts: new FailedAttempts(clock),
    ports: {
      ...ports,
      ...stores,
      refusals: { noteLater: () => {} },
      resolveClient: clientResolver({ ...stores, base, clock, fetchDocument: unreachable }),
      isAdmitted: async () => true,
    },
    firstOrganization: undefined,
    trustedProxies: [],
    log: jsonLog('silent', { write: () => true }),
  };
  const administration = {
    base,
    ...stores,
    clock,
    refusals,
    upstreamSetup: loopbackSetup(),
    webhookSetup: loopbackWebhooks(clock),
    mailSetup: loopbackMail(clock),
    providerSetup,
    contentKey: masterKey(new Uint8Array(32)),
  };
  const pages = createPages({
    ...shared,
    people: {
      ...stores,
      hashing: passwordHashing({ log2Cost }),
      sealing: masterKey(randomBytes(32)),
      refusals,
      grantsOf: accountGrantsOf(stores.db, clock),
      identityProvider,
      providerSetup,
      clock,
    },
    administration,
    scimRate: new RequestRate(scimRequestsOfDirectory),
    proxyDownload,
    dashboard: {
      ...options,
      base,
      ports: {
        ...administration,
        sealing: masterKey(randomBytes(32)),
        authorizationClientOf: () => {
          throw new Error('no test comes here');
        },
        cleanUpCredentials: async () => undefined,
        presenceOf: () => offlineAgent,
        serverHealth: async () => upstreams.health,
        learnHealth: async () => undefined,
        async inspectUrl(url) {
          upstreams.asked.push(url);
          return upstreams.inspection;
        },
        inspectTools: async () => upstreams.inspection,
        tryKey: async () => ({ outcome: 'listed' }),
        identityProvider,
        fixedOutboundHosts: [],
        listNodes: async () => nodes,
        changes: stores.changes,
        callServer: consoleCalls(gateway),
        proxy: async () => proxyDownload.reference(base),
      },
    },
  });
  const app = createApp({
    ...shared,
    keys,
    gateway,
    agents: {
      directory: stores.agentDirectory,
      clock,
      attempts: new FailedAttempts(clock),
      refusals,
      hasRoomFor: () => false,
      accept: () => {},
      used: () => {},
    },
    dynamicRegistration: true,
    allowedOrigins: [],
    maxBodyBytes: 65_536,
    pages: new LatePages(async () => pages.ready().then(() => pages)),
    ready: async () => {},
  });
  const changing: string[] = [];
  const reading: string[] = [];
  const noteRoute = ({ method, url }: { method: string | string[]; url: string }) => {
    const methods = [method].flat().filter((one) => !['GET', 'HEAD', 'OPTIONS'].includes(one));
    changing.push(...methods.map((one) => `${one} ${url}`));
    if ([method].flat().includes('GET')) reading.push(`GET ${url}`);
  };
  for (const routes of [app, pages]) routes.addHook('onRoute', noteRoute);
  await pages.ready();
  await app.ready();
  const { host } = new URL(base);

  return {
    server,
    changing,
    reading,
    upstreams,
    nodes,
    provider,
    txt,
    async post({ path: url, cookie, body: payload, headers = {}, address = '127.0.0.1' }) {
      const own = { host, cookie, origin: base };
      const answer = await app.inject({
        method: 'POST',
        url,
        remoteAddress: address,
        headers: { 'content-type': 'application/x-www-form-urlencoded', ...own, ...headers },
        payload,
      });
      return answered(answer);
    },
    async get(url, cookie) {
      return answered(await app.inject({ method: 'GET', url, headers: { host, cookie } }));
    },
    async stream(url, cookie) {
      const asked = {
        method: 'GET',
        url,
        headers: { host, cookie },
        payloadAsStream: true,
      } as const;
      const answer = await app.inject(asked);
      const stream = answer.stream().setEncoding('utf8');
      let received = '';
      stream.on('data', (chunk: string) => (received += chunk));
      const whole = once(stream, 'end').then(() => received);
      return { status: answer.statusCode, text: whole, received: () => received };
    },
    async api({ method, path: url, headers = {}, body, address = '127.0.0.1' }) {
      const answer = await app.inject({
        method,
        url,
        remoteAddress: address,
        headers: { host, ...(body && { 'content-type': 'application/json' }), ...headers },
        ...(body && { payload: JSON.stringify(body) }),
      });
      return { status: answer.statusCode, headers: answer.headers, text: answer.body };
    },
    async browser(
      userId,
      membership = { organizationId: 'org_acme', role: 'member' },
      factors = 1,
      through,
    ) {
      const user = { id: userId, email: `${userId}@example.com`, createdAt: clock.now() };
      await insertUser(stores.db, user, membership);
      const visit = { address: '127.0.0.1', userAgent: 'test', requestId: 'test' };
      const { session, sessionToken } = await startSession(
        { userId, factors, ...(through && { through: { ...through, amr: [] } }) },
        visit,
        { ...stores, clock },
      );
      return {
        userId,
        sessionId: session.id,
        cookie: `${cookieName('latchkey', base)}=${sessionToken}`,
        csrfToken: csrfToken(sessionToken),
      };
    },
    async [Symbol.asyncDispose]() {
      await app.close();
      await gateway.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

function answered(answer: {
  statusCode: number;
  body: string;
  headers: { location?: string | undefined };
  cookies: readonly { name: string; value: string }[];
}): PageAnswer {
  const { statusCode: status, body, headers } = answer;
  const cookies = answer.cookies.map(({ name, value }) => `${name}=${value}`);
  return { status, text: body, location: headers.location, cookies };
}
