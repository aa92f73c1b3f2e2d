import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { accessTokens, type AccessTokens } from '#server/oauth/access-tokens';
import { tokenEndpoint } from '#server/oauth/grants';
import { assertionPorts } from '#support/assertion-ports';
import { clientDatabase, someClient, type ClientDatabase } from '#support/client-database';
import { freshSigningKeys } from '#support/fresh-signing-keys';
import { stillClock, type StillClock } from '#support/still-clock';

const base = 'https://latchkey.example.com';
const client = someClient();
const used = vi.fn();
let clock: StillClock;
let database: ClientDatabase;
let tokens: AccessTokens;
let secret: string;

beforeEach(async () => {
  clock = stillClock();
  database = await clientDatabase();
  tokens = accessTokens(base, { keys: await freshSigningKeys(clock), clock });
  secret = await database.keep(client);
  used.mockClear();
});
afterEach(() => database[Symbol.asyncDispose]());

/** Sends a valid token request except for the parameters in `but`; `undefined` omits a parameter. */
async function ask(but: Record<string, string | undefined> = {}) {
  const right = {
    grant_type: 'client_credentials',
    client_id: client.id,
    client_secret: secret,
    ...but,
  };
  const form = new Map(
    Object.entries(right).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
  const endpointUrl = (serverPath: string) => `${base}/mcp/${serverPath}`;
  const { tokens: answer } = await tokenEndpoint(
    { form, method: 'POST', url: `${base}/api/oauth/token`, headers: {} },
    {
      ...database,
      ...assertionPorts(clock, database.db),
      base,
      clock,
      tokens,
      endpointUrl,
      source: { address: undefined, requestId: undefined },
      used,
    },
  );
  return answer;
}

test('client credentials give a bearer token for an hour with all scopes of the client', async () => {
  expect(await ask()).toEqual({
    access_token: expect.stringMatching(/^eyJ/),
    token_type: 'Bearer',
    expires_in: 3600,
    scope: 'mcp:tools:read mcp:tools:execute',
  });
});

test('the token is for the one endpoint of its client, and names the client as its subject', async () => {
  const { access_token: token } = await ask();

  expect(await tokens.verify(token)).toEqual({
    outcome: 'valid',
    claims: {
      id: expect.stringMatching(/^[0-9A-Za-z]{22}$/),
      subject: client.id,
      clientId: client.id,
      audience: `${base}/mcp/acme/sales`,
      scopes: ['mcp:tools:read', 'mcp:tools:execute'],
      issuedAt: clock.now(),
      expiresAt: clock.now() + 3600,
    },
  });
});

test('a narrower scope gives a narrower token', async () => {
  const answer = await ask({ scope: 'mcp:tools:read' });

  expect(answer.scope).toBe('mcp:tools:read');
  expect(await tokens.verify(answer.access_token)).toMatchObject({
    claims: { scopes: ['mcp:tools:read'] },
  });
});

test('the resource may be named if it is the endpoint of the client', async () => {
  expect(await ask({ resource: `${base}/mcp/acme/sales` })).toMatchObject({ expires_in: 3600 });
});

test('two answers in the same second contain two tokens with different ids', async () => {
  const [one, two] = [await ask(), await ask()];

  expect(one.access_token).not.toBe(two.access_token);
});

test('an issued token counts as a use of the client', async () => {
  await ask();

  expect(used).toHaveBeenCalledExactlyOnceWith({ type: 'client', id: client.id }, clock.now());
});

describe('a request is refused, and does not count as a use, when', () => {
  test.each([
    ['it names no grant', { grant_type: undefined }, 'invalid_request'],
    ['it names a grant of another kind', { grant_type: 'password' }, 'unsupported_grant_type'],
    ['its grant has another case', { grant_type: 'Client_Credentials' }, 'unsupported_grant_type'],
    ['it names no client', { client_id: undefined }, 'invalid_request'],
    ['it proves no client', { client_secret: undefined }, 'invalid_client'],
    ['its secret is wrong', { client_secret: 'secret_wrong' }, 'invalid_client'],
    ['it wants a scope beyond the client', { scope: 'mcp:server:manage' }, 'invalid_scope'],
    ['it wants an unknown scope', { scope: 'openid' }, 'invalid_scope'],
    ['it is about another server', { resource: `${base}/mcp/acme/other` }, 'invalid_target'],
    ['it is about the issuer itself', { resource: base }, 'invalid_target'],
    ['its resource ends in a slash', { resource: `${base}/mcp/acme/sales/` }, 'invalid_target'],
  ])('%s', async (_, but, code) => {
    await expect(ask(but)).rejects.toMatchObject({ name: 'OAuthError', code });
    expect(used).not.toHaveBeenCalled();
  });
});

test('a client is authenticated before anything about its scopes is revealed', async () => {
  await expect(
    ask({ client_secret: 'secret_wrong', scope: 'mcp:server:manage' }),
  ).rejects.toMatchObject({ code: 'invalid_client' });
});
