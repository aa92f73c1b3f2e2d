import { createHash, randomBytes } from 'node:crypto';
import { text } from 'node:stream/consumers';

import { everyRefusal } from '#server/audit/every-refusal';
import { dashboardRoutes } from '#server/dashboard/dashboard-routes';
import { consoleCalls } from '#server/console/call-server';
import { proxyReference } from '#server/download/proxy-reference';
import { TranslatedEras } from '#server/eras/translated-eras';
import { Gateway } from '#server/gateway/gateway';
import { accountGrantsOf } from '#server/http/account-grants';
import { createApp } from '#server/http/app';
import { cookieName } from '#server/http/cookies';
import { jsonLog } from '#server/log/log';
import { FailedAttempts } from '#server/oauth/failed-attempts';
import { findClient } from '#server/oauth/find-client';
import { csrfToken } from '#server/people/csrf-token';
import { passwordHashing } from '#server/people/password-hashing';
import type { Role } from '#server/people/role';
import { startSession } from '#server/people/start-session';
import { masterKey } from '#server/signing/master-key';
import { readSigningKeys } from '#server/signing/signing-key';
import { sqliteChanges } from '#server/store/sqlite/change-store';
import { absent } from '#server/tunnel/agent-presence';
import { sqliteAgentDirectory } from '#server/store/sqlite/agent-directory';
import { sqliteAdmissions } from '#server/store/sqlite/admission-store';
import { authorizationServer, type AuthorizationServer } from './authorization-server.ts';
import { fakeMac } from './fake-mac.ts';
import { loopbackSetup } from './upstream-setup.ts';
import { loopbackWebhooks } from './webhook-setup.ts';
import { memorySigningKeyStore } from './memory-signing-keys.ts';

/** What stands for the proxy's package. */
export const handedOut = {
  fileName: 'latchkey-1.2.3.tgz',
  bytes: Buffer.from('the proxy'),
  sha256: createHash('sha256').update('the proxy').digest('hex'),
};

/** A browser that somebody is signed in with, and what the forms of its pages carry. */
export interface SignedInBrowser {
  readonly userId: string;
  readonly sessionId: string;
  readonly cookie: string;
  readonly csrfToken: string;
}

export interface Sent {
  readonly path: string;
  readonly cookie: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Where it comes from; 127.0.0.1 unless given. */
  readonly address?: string;
}

export interface PageAnswer {
  readonly status: number;
  readonly text: string;
  readonly location: string | undefined;
  /** What the browser is to keep, each as `name=value`. */
  readonly cookies: readonly string[];
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** The server's own routes, every option on, without a socket; and which they are. */
export interface PageApp extends AsyncDisposable {
  readonly server: AuthorizationServer;
  /** `POST /sign-in` and the like, of every route that may change something. */
  readonly changing: readonly string[];
  /** `GET /account` and the like, of every route that shows something. */
  readonly reading: readonly string[];
  post(sent: Sent): Promise<PageAnswer>;
  get(path: string, cookie: string): Promise<PageAnswer>;
  /** Resolves when the answer begins; `text` when the server ends it. */
  stream(path: string, cookie: string): Promise<{ status: number; text: Promise<string> }>;
  /** Asks the admin API as a program does; the answer's body is JSON. */
  api(asked: {
    readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
    readonly path: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly body?: object | undefined;
    readonly address?: string;
  }): Promise<ApiAnswer>;
  /** Signs in somebody who is a member of acme, or what else is said. */
  browser(
    userId: string,
    membership?: { readonly organizationId: string; readonly role: Role },
    /** How many factors the browser proved: one, unless said. */
    factors?: 1 | 2,
  ): Promise<SignedInBrowser>;
}

export async function pageApp(): Promise<PageApp> {
  const server = await authorizationServer();
  const { base, clock, stores, ports } = server;
  const keys = await readSigningKeys(memorySigningKeyStore(), {
    masterKey: masterKey(randomBytes(32)),
    clock,
  });
  const unused = async () => {
    throw new Error('no test comes here');
  };
  const refusals = everyRefusal({ ...stores, clock });
  const gateway = new Gateway({
    base,
    endpointUrl: ports.endpointUrl,
    tokens: ports.tokens,
    clock,
    used: () => {},
    note: () => {},
    admissions: sqliteAdmissions(stores.connection),
    mac: fakeMac,
    presentationOf: () => Promise.resolve(undefined),
    upstreamOf: () => {
      throw new Error('no test comes here');
    },
    left: () => {},
    isAllowedOrigin: () => false,
    eras: new TranslatedEras(clock),
    refused: () => {},
  });
  const app = createApp({
    base,
    keys,
    gateway,
    people: {
      ...stores,
      hashing: passwordHashing({ log2Cost: 8 }),
      sealing: masterKey(randomBytes(32)),
      refusals,
      grantsOf: accountGrantsOf(stores.grants, clock),
      identityProvider: {
        name: 'Acme ID',
        issuer: 'https://id.example',
        begin: async ({ state }) => new URL(`https://id.example/authorize?state=${state}`),
        finish: unused,
      },
      clock,
    },
    ports: {
      ...ports,
      ...stores,
      refusals,
      findClient: findClient({ ...stores, base, clock, fetchDocument: unused }),
      isAdmitted: async () => true,
    },
    administration: {
      ...stores,
      clock,
      refusals,
      upstreamSetup: loopbackSetup(),
      webhookSetup: loopbackWebhooks(clock),
    },
    agents: {
      directory: sqliteAgentDirectory(stores.connection),
      clock,
      refusals,
      hasRoomFor: () => false,
      accept: () => {},
      used: () => {},
    },
    failedAttempts: new FailedAttempts(clock),
    dynamicRegistration: true,
    firstOrganization: undefined,
    trustedProxies: [],
    allowedOrigins: [],
    maxBodyBytes: 65_536,
    proxyDownload: { fileName: handedOut.fileName, copy: async () => handedOut },
    others: [
      (routes) =>
        dashboardRoutes(routes, {
          base,
          ports: {
            ...stores,
            clock,
            refusals,
            upstreamSetup: loopbackSetup(),
            webhookSetup: loopbackWebhooks(clock),
            sealing: masterKey(randomBytes(32)),
            authorizationClientOf: () => {
              throw new Error('no test comes here');
            },
            tellEnds: async () => undefined,
            presenceOf: () => absent,
            changes: sqliteChanges(stores.connection),
            callServer: consoleCalls(gateway),
            proxy: async () => proxyReference(base, handedOut),
          },
        }),
    ],
    log: jsonLog('silent', { write: () => true }),
    ready: async () => {},
  });
  const changing: string[] = [];
  const reading: string[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    const methods = [method].flat().filter((one) => !['GET', 'HEAD', 'OPTIONS'].includes(one));
    changing.push(...methods.map((one) => `${one} ${url}`));
    if ([method].flat().includes('GET')) reading.push(`GET ${url}`);
  });
  await app.ready();
  const { host } = new URL(base);

  return {
    server,
    changing,
    reading,
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
      return { status: answer.statusCode, text: text(answer.stream()) };
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
    ) {
      const user = { id: userId, email: `${userId}@example.com`, createdAt: clock.now() };
      await stores.users.add(user, membership);
      const visit = { address: '127.0.0.1', userAgent: 'test', requestId: 'test' };
      const { session, sessionToken } = await startSession({ userId, factors }, visit, {
        ...stores,
        clock,
      });
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
