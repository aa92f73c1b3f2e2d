import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { accessTokens, type AccessTokens } from '#server/oauth/access-tokens';
import { revocationEndpoint } from '#server/oauth/revocation';
import { clientDatabase, someClient, type ClientDatabase } from '#support/client-database';
import { freshSigningKeys } from '#support/fresh-signing-keys';
import { stillClock, type StillClock } from '#support/still-clock';

const base = 'https://latchkey.example.com';
const client = someClient();
let clock: StillClock;
let database: ClientDatabase;
let tokens: AccessTokens;
let secret: string;

beforeEach(async () => {
  clock = stillClock();
  database = await clientDatabase();
  tokens = accessTokens(base, { keys: await freshSigningKeys(clock), clock });
  secret = await database.keep(client);
});
afterEach(() => database[Symbol.asyncDispose]());

const revoked = () =>
  database.db.selectFrom('revoked_token').select(['jti', 'expires_at']).execute();

function tokenOf(clientId: string) {
  return tokens.issue({
    id: `jti of ${clientId}`,
    subject: clientId,
    clientId,
    audience: `${base}/mcp/acme/sales`,
    scopes: [],
    issuedAt: clock.now(),
    expiresAt: clock.now() + 3600,
  });
}

function ask(parameters: Record<string, string>) {
  return revocationEndpoint(new Map(Object.entries(parameters)), undefined, {
    ...database,
    base,
    clock,
    tokens,
    source: { address: undefined, requestId: undefined },
  });
}

const asClient = () => ({ client_id: client.id, client_secret: secret });

test("a client's own token is revoked until it would have expired anyway", async () => {
  await ask({ ...asClient(), token: tokenOf(client.id) });

  expect(await revoked()).toEqual([{ jti: `jti of ${client.id}`, expires_at: clock.now() + 3600 }]);
});

test('it is recorded once, with its client', async () => {
  const token = tokenOf(client.id);
  await ask({ ...asClient(), token });
  await ask({ ...asClient(), token });

  const recorded = await database.db.selectFrom('audit_event').selectAll().execute();
  expect(recorded).toMatchObject([
    {
      actor: `client:${client.id}`,
      organization: 'acme',
      action: 'access-token.revoke',
      target: 'acme/sales',
    },
  ]);
});

test('the hint about the type of the token changes nothing', async () => {
  const token = tokenOf(client.id);
  await ask({ ...asClient(), token, token_type_hint: 'refresh_token' });

  expect(await revoked()).toHaveLength(1);
});

test('it resolves only once the revocation is stored, and fails if that fails', async () => {
  database.breakWrites('revoked_token');

  await expect(ask({ ...asClient(), token: tokenOf(client.id) })).rejects.toThrow('disk full');
});

describe('nothing is revoked and no error returned for', () => {
  test.each([
    ["another client's token", () => tokenOf('client_other')],
    ['a token that nobody made', () => 'rt_unknown'],
    [
      'a token that has expired',
      async () => {
        const token = tokenOf(client.id);
        clock.advance(3600);
        return token;
      },
    ],
  ])('%s', async (_, made) => {
    await ask({ ...asClient(), token: await made() });

    expect(await revoked()).toEqual([]);
  });
});

describe('a request is refused when', () => {
  test('it names no token', async () => {
    await expect(ask(asClient())).rejects.toMatchObject({ code: 'invalid_request' });
  });

  test('its client does not authenticate', async () => {
    const token = tokenOf(client.id);

    await expect(ask({ client_id: client.id, token })).rejects.toMatchObject({
      code: 'invalid_client',
    });
    expect(await revoked()).toEqual([]);
  });
});
