import { createHmac, randomBytes } from 'node:crypto';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { randomToken } from '#server/accounts/sessions';
import { masterKey } from '#server/secrets/master-key';
import type { OpenStores } from '#server/app/stores';
import {
  accessFetch,
  authorizationClient,
  type AuthorizationClient,
  beginConnecting,
  type ConnectChecks,
  finishConnecting,
} from '#server/upstreams/credentials/authorization-client';
import { discover } from '#server/upstreams/credentials/discovery';
import { openDatabase } from '#support/open-database';
import { tokenUpstream } from '#support/token-upstream';
import { turnedClock } from '#support/turned-clock';

const clock = turnedClock();
const sealing = masterKey(randomBytes(32));
const connecting = {
  access: { id: 'upa_1', targetId: 'srv_1' },
  userId: 'user_dana',
  sessionToken: randomToken(),
};
const unused = async () => {
  throw new Error('no test comes here');
};
const redeemed: ConnectChecks[] = [];
const tokens = { accessToken: 'access' };
const client: AuthorizationClient = {
  authorizationUrl: async ({ state }) => new URL(`https://as.example/authorize?state=${state}`),
  async redeem(_callback, checks) {
    redeemed.push(checks);
    return tokens;
  },
  refresh: unused,
  own: unused,
  revoke: unused,
};
let stores: OpenStores & AsyncDisposable;
beforeAll(async () => {
  stores = await openDatabase();
});
afterAll(() => stores[Symbol.asyncDispose]());

const ports = () => ({ ...stores, client, sealing, clock });
const begin = async () => {
  const there = await beginConnecting(connecting, 'https://latchkey.example/callback', ports());
  return there.searchParams.get('state') ?? '';
};
const finish = (state: string, but: Partial<typeof connecting> = {}) => {
  const callback = new URL(`https://latchkey.example/callback?code=x&state=${state}`);
  return finishConnecting({ ...connecting, ...but }, callback, ports());
};
const refused = { code: 'refused' };

test('91: a state is valid once, for one person, one access and one session', async () => {
  const state = await begin();

  await expect(finish(state, { sessionToken: randomToken() })).rejects.toMatchObject(refused);
  await expect(finish(state, { userId: 'user_eve' })).rejects.toMatchObject(refused);
  const access = { id: 'upa_2', targetId: 'srv_1' };
  await expect(finish(state, { access })).rejects.toMatchObject(refused);
  expect(await finish(state)).toBe(tokens);
  await expect(finish(state)).rejects.toMatchObject(refused);
});

test('91: a state made with the key of the session cookie is refused', async () => {
  const { access, userId, sessionToken } = connecting;
  const head = Buffer.alloc(22);
  head.writeUIntBE(clock.now() + 200, 0, 6);
  const purpose = `upstream ${access.targetId} ${access.id} ${userId}`;
  const mac = createHmac('sha256', sessionToken).update(`challenge ${purpose}\0`).update(head);
  const forged = Buffer.concat([head, mac.digest().subarray(0, 16)]).toString('base64url');

  await expect(finish(forged)).rejects.toMatchObject(refused);
});

test('91: the code verifier cannot be derived from state and session', async () => {
  const state = await begin();
  await finish(state);
  const guess = createHmac('sha256', connecting.sessionToken);

  expect(redeemed.at(-1)?.codeVerifier).toHaveLength(43);
  expect(redeemed.at(-1)?.codeVerifier).not.toBe(
    guess.update(`upstream code verifier\0${state}`).digest('base64url'),
  );
});

test('an authorization server that requires pushed authorization requests gets one, and its code is redeemed', async () => {
  const redirectUri = 'http://127.0.0.1/callback';
  await using upstream = await tokenUpstream({ requiresPushedRequests: true });
  const { url, clientId, clientSecret } = upstream;
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const fetch = accessFetch({ allowedHosts: ['127.0.0.1'], resolve }, []);
  const found = await discover({ url, kind: 'authorization_code' }, fetch);
  const there = authorizationClient({ ...found, clientId }, clientSecret, { fetch, clock });
  const checks = { state: 's'.repeat(43), codeVerifier: 'v'.repeat(43) };

  const page = await there.authorizationUrl(checks, redirectUri);
  const { accessToken } = await there.redeem(await upstream.consent(page.href, 'dana'), checks);

  expect([...page.searchParams.keys()].toSorted()).toEqual(['client_id', 'request_uri']);
  expect(upstream.issued).toContain(accessToken);
});
