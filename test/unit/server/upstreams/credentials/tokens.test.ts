import { randomBytes } from 'node:crypto';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { replaceUpstreamAccess } from '#server/db/upstream-access';
import { insertOrganization } from '#server/db/organizations';
import { insertServer } from '#server/db/servers';
import { masterKey } from '#server/secrets/master-key';
import { tokensPurpose, UpstreamAccessError } from '#server/upstreams/credentials/access';
import {
  type AuthorizationClient,
  timesOf,
  type UpstreamTokens,
} from '#server/upstreams/credentials/authorization-client';
import { PersonTokens, tokensText } from '#server/upstreams/credentials/tokens';
import type { OpenStores } from '#server/app/stores';
import { openDatabase } from '#support/open-database';
import { stillClock, type StillClock } from '#support/still-clock';
import { someUpstreamAccess } from '#support/some-upstream-access';
import { insertUser } from '#server/db/people';
import {
  findUpstreamConnection,
  replaceUpstreamConnection,
  claimUpstreamConnection,
  endUpstreamConnection,
} from '#server/db/upstream-connections';

const access = someUpstreamAccess;
const sealing = masterKey(randomBytes(32));

let stores: OpenStores & AsyncDisposable;
let clock: StillClock;
let refreshed: string[];
let revoked: string[];
let answer: () => Promise<void>;

beforeEach(async () => {
  stores = await openDatabase();
  clock = stillClock();
  refreshed = [];
  revoked = [];
  answer = async () => {};
  const createdAt = clock.now();
  await insertOrganization(stores.db, { id: 'org', name: 'acme', createdAt });
  const upstream = { kind: 'http', url: access.url } as const;
  const server = { id: 'srv_web', organizationId: 'org', name: 'web', upstream, createdAt };
  await insertServer(stores.db, { ...server, targetId: access.targetId });
  const dana = { id: 'dana', email: 'dana@example.com', createdAt };
  await insertUser(stores.db, dana, { organizationId: 'org', role: 'member' });
  await replaceUpstreamAccess(stores.db, access);
});
afterEach(() => stores[Symbol.asyncDispose]());

const of = { targetId: 'target_web', accessId: 'upa_1', userId: 'dana' };
const connect = (but: Partial<UpstreamTokens> = {}) => {
  const tokens = {
    accessToken: 'access-0',
    refreshToken: 'refresh-0',
    ...timesOf(600, clock.now()),
    ...but,
  };
  return replaceUpstreamConnection(stores.db, {
    ...of,
    id: 'upc_1',
    organizationId: 'org',
    sealedTokens: sealing.seal(tokensPurpose(of), tokensText(tokens)),
    createdAt: clock.now(),
  });
};

/** A process. All processes share the store and the authorization server, which accepts each refresh token once. */
const process = () => {
  const none = () => Promise.reject(new Error('no test comes here'));
  const client: AuthorizationClient = {
    authorizationUrl: none,
    redeem: none,
    own: none,
    async refresh(refreshToken) {
      if (refreshToken !== `refresh-${refreshed.length}`) {
        throw new UpstreamAccessError('ended', 'invalid_grant');
      }
      refreshed.push(refreshToken);
      const count = refreshed.length;
      await answer();
      const times = timesOf(600, clock.now());
      return { accessToken: `access-${count}`, refreshToken: `refresh-${count}`, ...times };
    },
    revoke: async ({ refreshToken = '' }) => void revoked.push(refreshToken),
  };
  const ports = { db: stores.db, sealing, clock };
  return new PersonTokens({ ...ports, clientOf: () => client });
};

test('a valid token is returned without any request', async () => {
  await connect();

  expect(await process().token(access, 'dana')).toBe('access-0');
  expect(refreshed).toEqual([]);
});

test('a person who connected nothing gets no token, whatever others connected', async () => {
  await connect();

  await expect(process().token(access, 'eve')).rejects.toMatchObject({ code: 'not_connected' });
});

test('tokens sealed for one person open for no other', async () => {
  await connect();
  stores.connection.exec(
    `insert into person (id, email, email_key, created_at) values ('eve', 'e@x', 'e@x', 1)`,
  );
  stores.connection.exec(
    `insert into membership (person_id, organization_id, role) values ('eve', 'org', 'member')`,
  );
  stores.connection.exec(`update upstream_connection set person_id = 'eve', subject = 'eve'`);

  await expect(process().token(access, 'eve')).rejects.toThrow('unable to authenticate');
});

test('an expired token is renewed once for many callers in many processes', async () => {
  await connect();
  clock.advance(600);
  const processes = [process(), process(), process()];

  const tokens = await Promise.all(
    processes.flatMap((one) => Array.from({ length: 5 }, () => one.token(access, 'dana'))),
  );

  expect(new Set(tokens)).toEqual(new Set(['access-1']));
  expect(refreshed).toHaveLength(1);
});

test('shortly before its expiry one caller renews, and no other waits', async () => {
  await connect();
  clock.advance(550);
  let go = () => {};
  answer = () => new Promise((resolve) => (go = resolve));
  const [first, second] = [process(), process()];

  const renewing = first.token(access, 'dana');
  while (refreshed.length === 0) await new Promise(setImmediate);
  const meanwhile = [await second.token(access, 'dana'), await first.token(access, 'dana')];
  go();

  expect(meanwhile).toEqual(['access-0', 'access-0']);
  expect(await renewing).toBe('access-1');
});

test('a rejected token is never returned again, and renewed once', async () => {
  await connect();
  const one = process();

  const tokens = await Promise.all([1, 2, 3].map(() => one.token(access, 'dana', 'access-0')));

  expect(tokens).toEqual(['access-1', 'access-1', 'access-1']);
  expect(refreshed).toHaveLength(1);
});

test('a connection whose renewal is refused must be made again', async () => {
  await connect({ refreshToken: 'stolen and used' });
  clock.advance(600);
  const one = process();

  await expect(one.token(access, 'dana')).rejects.toMatchObject({ code: 'not_connected' });
  const kept = await findUpstreamConnection(stores.db, 'upa_1', 'dana');
  expect(kept?.failedAt).toBe(clock.now());
  expect(await one.isConnected(access, 'dana')).toBe(false);
});

test('an unreachable authorization server has no effect while the token is valid', async () => {
  await connect();
  const one = process();
  answer = () => Promise.reject(new UpstreamAccessError('unreachable', 'away'));
  clock.advance(550);
  const before = await one.token(access, 'dana');
  clock.advance(50);
  refreshed = [];

  expect(before).toBe('access-0');
  await expect(one.token(access, 'dana')).rejects.toMatchObject({ code: 'unreachable' });
  expect((await findUpstreamConnection(stores.db, 'upa_1', 'dana'))?.failedAt).toBeUndefined();
});

test('tokens that arrive after the person disconnected are revoked, not stored', async () => {
  await connect();
  clock.advance(600);
  answer = async () => void (await endUpstreamConnection(stores.db, 'upa_1', 'dana'));

  await expect(process().token(access, 'dana')).rejects.toMatchObject({ code: 'not_connected' });
  expect(revoked).toEqual(['refresh-1']);
});

test('a process that died during a renewal does not block it for ever', async () => {
  await connect();
  clock.advance(600);
  const now = clock.now();
  await claimUpstreamConnection(stores.db, { id: 'upc_1', version: 0 }, { now, until: now + 30 });
  clock.advance(30);

  expect(await process().token(access, 'dana')).toBe('access-1');
});
