import { beforeEach, describe, expect, test, vi } from 'vitest';
import { revocationEndpoint } from '#server/oauth/revocation-endpoint';
import { accessTokens, type AccessTokens } from '#server/signing/access-token';
import { stillClock, type StillClock } from '#support/still-clock';
import { memoryClients, someClient, type MemoryClients } from '#support/memory-clients';
import { unasked } from '#support/unasked';
import { freshSigningKeys } from '#support/memory-signing-keys';

const base = 'https://latchkey.example.com';
const client = someClient();
const revoke = vi.fn(() => Promise.resolve());
let clock: StillClock;
let clients: MemoryClients;
let tokens: AccessTokens;
let secret: string;

beforeEach(async () => {
  clock = stillClock();
  clients = memoryClients();
  tokens = accessTokens(base, { keys: await freshSigningKeys(clock), clock });
  secret = clients.keep(client);
  revoke.mockClear();
});

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
  const revokedTokens = { revoke, isRevoked: () => Promise.resolve(false) };
  return revocationEndpoint(new Map(Object.entries(parameters)), undefined, {
    clients,
    clock,
    tokens,
    revokedTokens,
    base,
    assertions: unasked('assertions'),
    refreshTokens: unasked('refreshTokens'),
    grants: unasked('grants'),
    audit: { append: () => Promise.resolve() },
  });
}

const asClient = () => ({ client_id: client.id, client_secret: secret });

test("a client's own token is revoked until it would have expired anyway", async () => {
  await ask({ ...asClient(), token: await tokenOf(client.id) });

  expect(revoke).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ id: `jti of ${client.id}`, expiresAt: clock.now() + 3600 }),
    clock.now(),
  );
});

test('the hint about the type of the token changes nothing', async () => {
  const token = await tokenOf(client.id);
  await ask({ ...asClient(), token, token_type_hint: 'refresh_token' });

  expect(revoke).toHaveBeenCalledTimes(1);
});

test('it resolves only once the revocation is kept, and fails when that fails', async () => {
  revoke.mockRejectedValueOnce(new Error('disk full'));

  await expect(ask({ ...asClient(), token: await tokenOf(client.id) })).rejects.toThrow(
    'disk full',
  );
});

describe('nothing is revoked and no error told for', () => {
  test.each([
    ["another client's token", () => tokenOf('client_other')],
    ['a token that nobody made', () => 'rt_unknown'],
    [
      'a token that has expired',
      async () => {
        const token = await tokenOf(client.id);
        clock.advance(3600);
        return token;
      },
    ],
  ])('%s', async (_, made) => {
    await ask({ ...asClient(), token: await made() });

    expect(revoke).not.toHaveBeenCalled();
  });
});

describe('a request is refused when', () => {
  test('it names no token', async () => {
    await expect(ask(asClient())).rejects.toMatchObject({ code: 'invalid_request' });
  });

  test('its client does not prove who it is', async () => {
    const token = await tokenOf(client.id);

    await expect(ask({ client_id: client.id, token })).rejects.toMatchObject({
      code: 'invalid_client',
    });
    expect(revoke).not.toHaveBeenCalled();
  });
});
