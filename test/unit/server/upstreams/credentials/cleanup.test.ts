import { randomBytes } from 'node:crypto';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { insertOrganization } from '#server/db/organizations';
import { insertServer } from '#server/db/servers';
import {
  type UpstreamAccess,
  replaceUpstreamAccess,
  removeUpstreamAccess,
} from '#server/db/upstream-access';
import { OutboundError } from '#server/outbound/checked-addresses';
import type { GuardedRequest } from '#server/outbound/guarded-fetch';
import { masterKey } from '#server/secrets/master-key';
import type { OpenStores } from '#server/app/stores';
import {
  registrationPurpose,
  tokensPurpose,
  UpstreamAccessError,
} from '#server/upstreams/credentials/access';
import type { AuthorizationClient } from '#server/upstreams/credentials/authorization-client';
import { CredentialCleanup } from '#server/upstreams/credentials/cleanup';
import { ServerTokens, tokensText, type EndedTokens } from '#server/upstreams/credentials/tokens';
import { newestEvents } from '#support/newest-events';
import { openDatabase } from '#support/open-database';
import { stillClock, type StillClock } from '#support/still-clock';

const issuer = 'https://as.example';
const access: UpstreamAccess = {
  id: 'upa_1',
  targetId: 'target_web',
  endpointId: 'srv_web',
  kind: 'authorization_code',
  url: 'https://mcp.example/mcp',
  metadata: {
    issuer,
    token_endpoint: `${issuer}/token`,
    revocation_endpoint: `${issuer}/revoke`,
  },
  resource: 'https://mcp.example/mcp',
  clientId: 'latchkey',
  sealedClientSecret: undefined,
  scopes: [],
  vouchedHosts: [],
  createdAt: 1,
};
const server = { organization: 'acme', name: 'web' };
const sealing = masterKey(randomBytes(32));
const of = { targetId: 'target_web', accessId: 'upa_1', userId: 'user_dana' };
const ended = {
  id: 'upc_1',
  access_id: of.accessId,
  target_id: of.targetId,
  subject: of.userId,
  sealed_tokens: sealing.seal(tokensPurpose(of), tokensText({ accessToken: 'danas' })),
  created_at: 1,
  renewed_at: 1,
};

const registrationUrl = `${issuer}/register/c1`;
const registration = {
  url: registrationUrl,
  sealedToken: sealing.seal(registrationPurpose(access), 'r1'),
};

let stores: OpenStores & AsyncDisposable;
let clock: StillClock;
let revoked: string[];
let asked: { url: string; request: GuardedRequest | undefined }[];
let isDown: boolean;
const running: CredentialCleanup[] = [];

beforeEach(async () => {
  stores = await openDatabase();
  clock = stillClock();
  [revoked, asked, isDown] = [[], [], false];
  const { db } = stores;
  await insertOrganization(db, { id: 'org', name: 'acme', createdAt: 1 });
  for (const [id, name] of [
    ['srv_web', 'web'],
    ['srv_other', 'other'],
  ] as const) {
    const upstream = { kind: 'http', url: access.url } as const;
    const ids = { id, targetId: `target_${name}`, organizationId: 'org' };
    await insertServer(db, { ...ids, name, upstream, createdAt: 1 });
  }
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((one) => one.close()));
  await stores[Symbol.asyncDispose]();
});

const none = () => Promise.reject(new Error('no test comes here'));
const clientOf = (): AuthorizationClient => ({
  authorizationUrl: none,
  redeem: none,
  refresh: none,
  own: async () => ({ accessToken: `own ${revoked.length}`, expiresAt: clock.now() + 100 }),
  async revoke({ accessToken }) {
    if (isDown) throw new UpstreamAccessError('unreachable', 'down');
    revoked.push(accessToken);
  },
});

interface CleanupOptions {
  /** Whether a connection ended, and whether the registration of its access did. */
  readonly connection?: boolean;
  readonly registration?: boolean;
  readonly metadata?: UpstreamAccess['metadata'];
  readonly serverTokens?: () => Promise<readonly EndedTokens[]>;
}

/** A cleanup of ended credentials; `rest` counts those that are left, and `answer` answers the requests about registrations. */
async function cleanupOf({
  connection = false,
  registration: isRegistered = false,
  metadata = access.metadata,
  serverTokens = async () => [],
}: CleanupOptions) {
  const { db } = stores;
  if (connection || isRegistered) {
    await replaceUpstreamAccess(db, { ...access, metadata, ...(isRegistered && { registration }) });
    await removeUpstreamAccess(db, access.targetId);
  }
  if (connection) await db.insertInto('upstream_connection').values(ended).execute();
  let answered: () => Response | Promise<never> = () => new Response();
  const cleanup = new CredentialCleanup({
    db,
    sealing,
    clientOf,
    takeServerTokens: serverTokens,
    fetchOf: () => async (url, request) => {
      asked.push({ url, request });
      return answered();
    },
    clock,
    onError: () => undefined,
  });
  running.push(cleanup);
  return {
    run: (answer = answered) => {
      answered = answer;
      return cleanup.run();
    },
    runNow: () => cleanup.runNow(),
    rest: async () => {
      const connections = await db.selectFrom('upstream_connection').select('id').execute();
      const registrations = await db
        .selectFrom('upstream_access')
        .select('id')
        .where('registration_url', 'is not', null)
        .execute();
      return connections.length + registrations.length;
    },
  };
}

/** The audit events, oldest first. */
const audited = async () => (await newestEvents(stores.db, 100)).toReversed();
const status = (code: number) => () => new Response(null, { status: code });
const outcomes = async () =>
  (await audited()).map(({ action, target, outcome }) => [action, target, outcome]);

test('cleanup: the tokens of an ended connection are revoked, audited and deleted', async () => {
  const { runNow, rest } = await cleanupOf({ connection: true });
  await runNow();

  expect([revoked, await rest()]).toEqual([['danas'], 0]);
  expect(await audited()).toMatchObject([
    {
      actor: 'system',
      organization: 'acme',
      action: 'upstream-token.revoke',
      target: 'connection:user_dana server:acme/web',
      outcome: 'done',
    },
  ]);
});

test('cleanup: an authorization server that is down is audited once and tried again later', async () => {
  const { run, rest } = await cleanupOf({ connection: true });
  isDown = true;
  await run();
  clock.advance(61);
  await run();
  const before = (await audited()).map(({ outcome }) => outcome);
  isDown = false;
  clock.advance(121);
  await run();

  expect(before).toEqual(['refused']);
  expect((await audited()).map(({ outcome }) => outcome)).toEqual(['refused', 'done']);
  expect([revoked, await rest()]).toEqual([['danas'], 0]);
});

test('cleanup: an authorization server without a revocation endpoint gets no request, and nothing is audited', async () => {
  const { revocation_endpoint: _, ...metadata } = access.metadata;
  const { run, rest } = await cleanupOf({ connection: true, metadata });
  await run();

  expect([revoked, await audited(), await rest()]).toEqual([[], [], 0]);
});

test('cleanup: a server’s own token is revoked once its access is removed or changed', async () => {
  const { db } = stores;
  await replaceUpstreamAccess(db, access);
  await replaceUpstreamAccess(db, {
    ...access,
    id: 'upa_2',
    targetId: 'target_other',
    endpointId: 'srv_other',
  });
  const tokens = new ServerTokens({ clientOf, db, clock });
  const { run } = await cleanupOf({ serverTokens: () => tokens.takeEnded() });
  await tokens.token(access, server);
  await tokens.token({ ...access, id: 'upa_2' }, server);
  await run();
  const whileActive = [...revoked];
  await removeUpstreamAccess(db, 'target_web');
  await run();
  const afterRemoval = [...revoked];
  await tokens.token({ ...access, id: 'upa_2', scopes: ['other'] }, server);
  await run();
  await run();

  expect([whileActive, afterRemoval]).toEqual([[], ['own 0']]);
  expect(revoked).toEqual(['own 0', 'own 0']);
  expect(await audited()).toHaveLength(2);
  expect((await audited())[0]).toMatchObject({ target: 'server:acme/web', outcome: 'done' });
});

test('cleanup: an expired token of a server is not revoked, and a failed revocation is audited', async () => {
  const tokens = new ServerTokens({ clientOf, db: stores.db, clock });
  const { run } = await cleanupOf({ serverTokens: () => tokens.takeEnded() });
  await tokens.token(access, server);
  clock.advance(100);
  await run();
  const lapsed = await audited();
  await tokens.token(access, server);
  isDown = true;
  await run();

  expect(lapsed).toEqual([]);
  expect(await audited()).toMatchObject([{ target: 'server:acme/web', outcome: 'refused' }]);
});

const action = 'upstream-client.deregister';

test('cleanup: an unused registration is deleted at its server, audited and forgotten', async () => {
  const { run, rest } = await cleanupOf({ registration: true });
  await run(status(204));

  const headers = { authorization: 'Bearer r1' };
  expect(asked).toEqual([{ url: registrationUrl, request: { method: 'DELETE', headers } }]);
  expect(await outcomes()).toEqual([[action, 'server:acme/web', 'done']]);
  expect(await rest()).toBe(0);
});

test.each([401, 403, 404, 405])(
  'cleanup: a registration whose deletion is answered with %i is not tried again',
  async (code) => {
    const { run, rest } = await cleanupOf({ registration: true });
    await run(status(code));

    expect(await outcomes()).toEqual([[action, 'server:acme/web', 'refused']]);
    expect(await rest()).toBe(0);
  },
);

test.each([
  ['answers 503', status(503)],
  ['answers 429', status(429)],
  ['cannot be reached', () => Promise.reject(new OutboundError('unreachable', 'down'))],
])('cleanup: a registration server that %s is tried again after a minute', async (_, no) => {
  const { run, rest } = await cleanupOf({ registration: true });
  await run(no);
  clock.advance(59);
  await run(no);

  expect([asked.length, await rest()]).toEqual([1, 1]);

  clock.advance(1);
  await run(status(204));

  expect([asked.length, await rest()]).toEqual([2, 0]);
  expect((await outcomes()).map(([, , outcome]) => outcome)).toEqual(['refused', 'done']);
});

test('cleanup: a cleanup that keeps failing is given up after ten attempts', async () => {
  const { run, rest } = await cleanupOf({ connection: true, registration: true });
  isDown = true;
  for (let tries = 0; tries < 25; tries += 1) {
    await run(status(503));
    clock.advance(60 * 2 ** 10);
  }

  expect([asked.length, await rest()]).toEqual([10, 0]);
});
