import { randomBytes } from 'node:crypto';

import { afterEach, beforeEach, expect, test } from 'vitest';

import type { AuditEvent } from '#server/audit/audit-log';
import { masterKey } from '#server/signing/master-key';
import type { AuthorizationClient } from '#server/upstream-access/authorization-client';
import { EndConnections } from '#server/upstream-access/end-connections';
import type { EndedTokens } from '#server/upstream-access/ended-tokens';
import { ServerTokens } from '#server/upstream-access/server-tokens';
import type { UpstreamAccess } from '#server/upstream-access/upstream-access';
import { UpstreamAccessError } from '#server/upstream-access/upstream-access-error';
import {
  tokensPurpose,
  type EndedConnection,
  type EndedConnectionStore,
} from '#server/upstream-access/upstream-connection';
import { tokensText } from '#server/upstream-access/upstream-tokens';
import { stillClock, type StillClock } from '#support/still-clock';

const issuer = 'https://as.example';
const access: UpstreamAccess = {
  id: 'upa_1',
  serverId: 'srv_web',
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
const of = { serverId: 'srv_web', accessId: 'upa_1', userId: 'user_dana' };
const dead: EndedConnection = {
  id: 'upc_1',
  ...of,
  organization: 'acme',
  server: 'web',
  sealedTokens: sealing.seal(tokensPurpose(of), tokensText({ accessToken: 'danas' })),
  attempts: 0,
};

let clock: StillClock;
let told: string[];
let audited: AuditEvent[];
let isDown: boolean;
const running: EndConnections[] = [];

beforeEach(() => {
  clock = stillClock();
  [told, audited, isDown] = [[], [], false];
});
afterEach(() => Promise.all(running.splice(0).map((one) => one.close())));

const none = () => Promise.reject(new Error('no test comes here'));
const clientOf = (): AuthorizationClient => ({
  authorizationUrl: none,
  redeem: none,
  refresh: none,
  own: async () => ({ accessToken: `own ${told.length}`, expiresAt: clock.now() + 100 }),
  async revoke({ accessToken }) {
    if (isDown) throw new UpstreamAccessError('unreachable', 'down');
    told.push(accessToken);
  },
});

/** Ends what `rows` hold, with an access of these facts. */
function ending(
  rows: EndedConnection[],
  {
    known = access,
    serverTokens = async () => [],
  }: { known?: UpstreamAccess; serverTokens?: () => Promise<readonly EndedTokens[]> } = {},
) {
  const due = new Map(rows.map((row) => [row.id, { row, at: 0 }]));
  const ended: EndedConnectionStore = {
    due: async (now) => [...due.values()].flatMap(({ row, at }) => (at <= now ? [row] : [])),
    async postpone({ id, attempts }, at) {
      due.set(id, { row: { ...dead, attempts: attempts + 1 }, at });
      return true;
    },
    remove: async (id) => void due.delete(id),
    forgetAccesses: async () => undefined,
  };
  const one = new EndConnections({
    ended,
    accesses: { byId: async () => known },
    sealing,
    clientOf,
    serverTokens,
    endRegistrations: async () => undefined,
    audit: { append: async (event) => void audited.push(event) },
    clock,
    failed: () => undefined,
  });
  running.push(one);
  return { run: () => one.run(), tellNow: () => one.tellNow(), left: () => due.size };
}

test('an end is told, written down and forgotten', async () => {
  const { tellNow, left } = ending([dead]);
  await tellNow();

  expect([told, left()]).toEqual([['danas'], 0]);
  expect(audited).toMatchObject([
    {
      actor: 'nobody',
      organization: 'acme',
      action: 'upstream-token.revoke',
      target: 'connection:user_dana server:acme/web',
      outcome: 'done',
    },
  ]);
});

test('who cannot be reached is written down once, and told when it can be', async () => {
  const { run, left } = ending([dead]);
  isDown = true;
  await run();
  clock.advance(61);
  await run();
  const before = audited.map(({ outcome }) => outcome);
  isDown = false;
  clock.advance(121);
  await run();

  expect(before).toEqual(['refused']);
  expect(audited.map(({ outcome }) => outcome)).toEqual(['refused', 'done']);
  expect([told, left()]).toEqual([['danas'], 0]);
});

test('a server without a revocation endpoint has nothing to be told, and nothing is claimed', async () => {
  const { revocation_endpoint: _, ...metadata } = access.metadata;
  const { run, left } = ending([dead], { known: { ...access, metadata } });
  await run();

  expect([told, audited, left()]).toEqual([[], [], 0]);
});

test('our own tokens are told once their access is not in force, or changed', async () => {
  const inForce = new Set(['upa_1', 'upa_2']);
  const accesses = { isInForce: async (id: string) => inForce.has(id) };
  const tokens = new ServerTokens({ clientOf, accesses, clock });
  const { run } = ending([], { serverTokens: () => tokens.takeEnded() });
  await tokens.token(access, server);
  await tokens.token({ ...access, id: 'upa_2' }, server);
  await run();
  const whileInForce = [...told];
  inForce.delete('upa_1');
  await run();
  const afterRemoval = [...told];
  await tokens.token({ ...access, id: 'upa_2', scopes: ['other'] }, server);
  await run();
  await run();

  expect([whileInForce, afterRemoval]).toEqual([[], ['own 0']]);
  expect(told).toEqual(['own 0', 'own 0']);
  expect(audited).toHaveLength(2);
  expect(audited[0]).toMatchObject({ target: 'server:acme/web', outcome: 'done' });
});

test('a token of ours that has lapsed is not told, and one that cannot be told fails nobody', async () => {
  const accesses = { isInForce: async () => false };
  const tokens = new ServerTokens({ clientOf, accesses, clock });
  const { run } = ending([], { serverTokens: () => tokens.takeEnded() });
  await tokens.token(access, server);
  clock.advance(100);
  await run();
  const lapsed = [...audited];
  await tokens.token(access, server);
  isDown = true;
  await run();

  expect(lapsed).toEqual([]);
  expect(audited).toMatchObject([{ target: 'server:acme/web', outcome: 'refused' }]);
});
