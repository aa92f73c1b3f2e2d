import { expect, test } from 'vitest';
import { managedGrant } from '#proxy/auth/managed-authorization';
import { processRefreshLock, sqliteRefreshLock, type RefreshLock } from '#proxy/auth/refresh-lock';
import {
  isSignedIn,
  providerServer,
  storedSignIn,
  type ProviderSignIn,
} from '#proxy/auth/provider-sign-in';
import { fileMarks } from '#proxy/auth/sign-in-marks';
import { tokenVault, type TokenRecord } from '#proxy/auth/token-vault';
import { accountTokens } from '#proxy/auth/account-tokens';
import { jsonLinesLog } from '#proxy/log/log';
import { providerAccount } from '#proxy/keychain/secret-accounts';
import { memorySecretStore } from '#proxy/keychain/secret-store';
import { systemClock } from '#proxy/clock/clock';
import { temporaryFolder } from '#support/temporary-folder';
import { fakeClock } from '#support/fake-clock';
import { web, type Page, type SeenForm } from '#support/web';

const url = 'https://mcp.example.com/mcp/acme/sales';
const issuer = 'https://as.example.com';
const provider = { issuer: 'https://id.acme.example', clientId: 'latchkey' };
const tokenEndpoint = `${issuer}/token`;
const exchangeEndpoint = `${provider.issuer}/token`;
const idJag = 'urn:ietf:params:oauth:token-type:id-jag';
const now = 1_000_000;

/** An ID token whose signature only the provider checks. */
function idTokenOf(claims: Record<string, unknown> = {}): string {
  const all = { iss: provider.issuer, aud: 'latchkey', sub: 'dana', exp: now + 3600, ...claims };
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'RS256' })}.${part(all)}.c2ln`;
}

const signedInBefore: ProviderSignIn = {
  server: {
    issuer: provider.issuer,
    tokenEndpoint: exchangeEndpoint,
    tokenEndpointAuthMethods: ['none'],
    within: 'public',
  },
  subject: 'dana',
  idToken: idTokenOf(),
  expiresAt: now + 3600,
  obtainedAt: now - 600,
  refreshToken: 'r1',
  signedInAs: 'dana@acme.example',
};

const assertion: Page = {
  json: { access_token: 'the-assertion', issued_token_type: idJag, token_type: 'N_A' },
};
const access: Page = { json: { access_token: 'a1', token_type: 'Bearer', expires_in: 3600 } };
const refused = (error: string, description?: string): Page => ({
  status: 400,
  json: { error, ...(description !== undefined && { error_description: description }) },
});

type Answers = {
  exchange?: (request: SeenForm) => Page;
  refresh?: (request: SeenForm) => Page;
  token?: (request: SeenForm) => Page;
  metadata?: Record<string, unknown>;
};

/** Dana, who signed in at Acme's provider ten minutes ago; `before` changes the stored sign-in, and `null` stores none. */
async function dana(
  { exchange = () => assertion, refresh, token = () => access, metadata = {} }: Answers = {},
  before: Partial<ProviderSignIn> | null = {},
  lock: RefreshLock = processRefreshLock(),
) {
  const clock = fakeClock(now);
  const store = memorySecretStore();
  if (before)
    await store.set(providerAccount(provider), JSON.stringify({ ...signedInBefore, ...before }));
  const { http, requests } = web({
    [url]: { status: 401 },
    'https://mcp.example.com/.well-known/oauth-protected-resource/mcp/acme/sales': {
      json: { resource: url, authorization_servers: [issuer], scopes_supported: ['read', 'run'] },
    },
    [`${issuer}/.well-known/oauth-authorization-server`]: {
      json: {
        issuer,
        token_endpoint: tokenEndpoint,
        token_endpoint_auth_methods_supported: ['none'],
        authorization_grant_profiles_supported: ['urn:ietf:params:oauth:grant-profile:id-jag'],
        ...metadata,
      },
    },
    [`${issuer}/oauth/clients/latchkey.json`]: {
      json: {
        client_id: `${issuer}/oauth/clients/latchkey.json`,
        redirect_uris: ['http://127.0.0.1/callback'],
      },
    },
    [exchangeEndpoint]: (request) =>
      request.form.get('grant_type') === 'refresh_token'
        ? (refresh?.(request) ?? refused('invalid_grant'))
        : exchange(request),
    [tokenEndpoint]: token,
  });
  const readPrivateKey = () => Promise.reject(new Error('no key'));
  const ports = { http, clock, store, lock, readPrivateKey };
  const credentials = { kind: 'authorization_code' as const };
  return {
    clock,
    store,
    ports,
    requests,
    grant: async (previous?: TokenRecord, wider = false, namedBy?: string) => {
      const from = { ...provider, ...(namedBy !== undefined && { namedBy }) };
      const known = { ...(previous && { previous }), wider };
      return managedGrant({ url, credentials, provider: from }, known, ports);
    },
    sent: (endpoint: string) =>
      requests
        .filter((request) => request.url.href === endpoint)
        .map(({ form }) => Object.fromEntries(form)),
  };
}

const renewed = (idToken: string, more = {}) => ({
  json: { access_token: 'x', token_type: 'Bearer', id_token: idToken, ...more },
});

test('company sign-in: the ID token becomes an assertion for the server, and that an access token', async () => {
  const { grant, sent } = await dana();

  const outcome = await grant();

  expect(outcome).toEqual({
    granted: {
      accessToken: 'a1',
      obtainedAt: now,
      expiresAt: now + 3600,
      issuer,
      published: true,
      scope: 'read run',
      signedInAs: 'dana@acme.example',
      provider: provider.issuer,
      clientId: `${issuer}/oauth/clients/latchkey.json`,
    },
  });
  expect(sent(exchangeEndpoint)).toEqual([
    {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      requested_token_type: idJag,
      audience: issuer,
      resource: url,
      scope: 'read run',
      subject_token: signedInBefore.idToken,
      subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
      client_id: 'latchkey',
    },
  ]);
  expect(sent(tokenEndpoint)).toEqual([
    {
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: 'the-assertion',
      resource: url,
      scope: 'read run',
      client_id: `${issuer}/oauth/clients/latchkey.json`,
    },
  ]);
});

test('company sign-in: while the ID token is valid, a renewal sends one request to the provider', async () => {
  const { grant, requests } = await dana();
  const first = await grant();
  const asked = requests.length;

  await grant('granted' in first ? first.granted : undefined);

  const hosts = requests.slice(asked).map((request) => request.url.host);
  expect(hosts.filter((host) => host === 'id.acme.example')).toHaveLength(1);
  // The ping, the two documents, the exchange and the grant: no document of the client.
  expect(hosts).toHaveLength(5);
});

test.each([
  ['no server that offers the grant', { authorization_grant_profiles_supported: undefined }],
  [
    'the grant type alone, which others list for workloads',
    {
      authorization_grant_profiles_supported: undefined,
      grant_types_supported: ['urn:ietf:params:oauth:grant-type:jwt-bearer'],
    },
  ],
  [
    'another profile',
    {
      authorization_grant_profiles_supported: ['urn:example:other'],
      grant_types_supported: ['urn:ietf:params:oauth:grant-type:jwt-bearer'],
    },
  ],
])(
  'company sign-in: %s: nothing is sent to the provider, and the outcome says why',
  async (_, metadata) => {
    const { grant, sent } = await dana({ metadata });

    expect(await grant()).toEqual({ unsupported: `${issuer} does not offer it` });
    expect(sent(exchangeEndpoint)).toEqual([]);
  },
);

test('company sign-in: the grant type is enough where the connection itself names the provider', async () => {
  const { ports } = await dana({
    metadata: {
      authorization_grant_profiles_supported: undefined,
      grant_types_supported: ['urn:ietf:params:oauth:grant-type:jwt-bearer'],
    },
  });
  const credentials = { kind: 'authorization_code' as const, identityProvider: provider };

  expect(await managedGrant({ url, credentials, provider }, { wider: false }, ports)).toMatchObject(
    { granted: { accessToken: 'a1' } },
  );
});

test('company sign-in: a provider without token exchange is a reason to sign in to the server', async () => {
  const { grant } = await dana({ exchange: () => refused('unsupported_grant_type') });

  expect(await grant()).toEqual({
    unsupported: `${exchangeEndpoint} answered 400 (unsupported_grant_type)`,
  });
});

test.each(['access_denied', 'invalid_target', 'invalid_scope', 'unauthorized_client'])(
  'company sign-in: %s of the provider is a refusal, not a reason to sign in to the server',
  async (error) => {
    const { grant, sent } = await dana({ exchange: () => refused(error, 'not yours') });

    await expect(grant()).rejects.toMatchObject({
      code: 'refused',
      message: `${provider.issuer} gives you no access to ${url} (${error}: not yours)`,
      details: { remedy: 'ask the administrators of your company for access' },
    });
    expect(sent(tokenEndpoint)).toEqual([]);
  },
);

test.each<[string, Answers]>([
  ['the provider', { exchange: () => refused('access_denied', 'not yours') }],
  ['the server', { token: () => refused('unauthorized_client', 'not yours') }],
])(
  'company sign-in: where only the server named the provider, a refusal of %s leads to the server itself',
  async (_, answers) => {
    const { grant } = await dana(answers);

    expect(await grant(undefined, false, url)).toMatchObject({
      unsupported: expect.stringMatching(/gives you no access to .*not yours/),
    });
  },
);

test('company sign-in: a refusal of the server is one, too, and is not repeated', async () => {
  const { grant, sent } = await dana({ token: () => refused('invalid_grant') });

  await expect(grant()).rejects.toMatchObject({
    message: `${issuer} gives you no access to ${url} (invalid_grant)`,
  });
  expect(sent(tokenEndpoint)).toHaveLength(1);
});

test('company sign-in: an expired ID token is renewed and stored before it is exchanged', async () => {
  const next = idTokenOf({ exp: now + 7200 });
  const { grant, sent, store } = await dana(
    { refresh: () => renewed(next, { refresh_token: 'r2' }) },
    { expiresAt: now + 10 },
  );

  await grant();

  expect(
    sent(exchangeEndpoint).map((form) => form['refresh_token'] ?? form['subject_token']),
  ).toEqual(['r1', next]);
  expect(await storedSignIn(provider, store)).toMatchObject({ idToken: next, refreshToken: 'r2' });
});

test('company sign-in: an ID token that the provider no longer accepts is renewed once', async () => {
  const next = idTokenOf({ exp: now + 7200 });
  const { grant, sent } = await dana({
    exchange: ({ form }) =>
      form.get('subject_token') === next ? assertion : refused('invalid_grant'),
    refresh: () => renewed(next),
  });

  expect(await grant()).toMatchObject({ granted: { accessToken: 'a1' } });
  expect(sent(exchangeEndpoint)).toHaveLength(3);
});

test('company sign-in: when the provider ends it, it ends for all connections, and says so', async () => {
  const { grant, store } = await dana({}, { expiresAt: now - 10 });

  const why = `the company sign-in of dana@acme.example is over: ${provider.issuer} ended it`;
  await expect(grant()).rejects.toMatchObject({ code: 'signed_out', message: why });
  expect(await storedSignIn(provider, store)).toEqual({ ended: why, endedAt: now });
  await expect(grant()).rejects.toMatchObject({ code: 'signed_out', message: why });
});

test('company sign-in: if another process has just renewed it, that sign-in is used', async () => {
  const next = idTokenOf({ exp: now + 7200 });
  const made = await dana(
    {
      refresh: () => {
        const record = {
          ...signedInBefore,
          idToken: next,
          expiresAt: now + 7200,
          refreshToken: 'r2',
        };
        void made.store.set(providerAccount(provider), JSON.stringify(record));
        return refused('invalid_grant');
      },
    },
    { expiresAt: now - 10 },
  );

  expect(await made.grant()).toMatchObject({ granted: { accessToken: 'a1' } });
});

test('company sign-in: ten processes that find it expired renew it once', async () => {
  await using folder = await temporaryFolder('locks');
  const next = idTokenOf({ exp: now + 7200 });
  // The SQLite lock separates its holders as if each were a process.
  const { grant, sent } = await dana(
    { refresh: () => renewed(next, { refresh_token: 'r2' }) },
    { expiresAt: now - 10 },
    sqliteRefreshLock(folder.path, systemClock()),
  );

  await Promise.all(Array.from({ length: 10 }, async () => grant()));

  const renewals = sent(exchangeEndpoint).filter((form) => 'refresh_token' in form);
  expect(renewals).toHaveLength(1);
});

test('company sign-in: a failing provider ends nothing', async () => {
  const { grant, store } = await dana(
    { refresh: () => ({ status: 503 }) },
    { expiresAt: now - 10 },
  );

  await expect(grant()).rejects.toMatchObject({ code: 'unreachable' });
  expect(isSignedIn(await storedSignIn(provider, store))).toBe(true);
});

test.each([
  ['of another person', { sub: 'eve' }],
  ['of another issuer', { iss: 'https://evil.example' }],
  ['for another client', { aud: ['somebody'] }],
])('company sign-in: a renewed ID token %s is not used', async (_, claims) => {
  const { grant, sent, store } = await dana(
    { refresh: () => renewed(idTokenOf(claims)) },
    { expiresAt: now - 10 },
  );

  await expect(grant()).rejects.toMatchObject({ code: 'signed_out' });
  expect(sent(exchangeEndpoint)).toHaveLength(1);
  expect(isSignedIn(await storedSignIn(provider, store))).toBe(false);
});

test('company sign-in: a provider that requires the person again is a sign-in, not a refusal', async () => {
  const { grant } = await dana({ exchange: () => refused('insufficient_user_authentication') });

  await expect(grant()).rejects.toMatchObject({ code: 'signed_out' });
});

test('company sign-in: it is never sent to another issuer than before', async () => {
  const { grant, sent } = await dana();
  const previous = {
    accessToken: 'a',
    obtainedAt: 0,
    issuer: 'https://old.example',
    published: true,
  };

  await expect(grant(previous)).rejects.toMatchObject({ code: 'issuer' });
  expect(sent(exchangeEndpoint)).toEqual([]);
});

test('company sign-in: without one, the person has to sign in there', async () => {
  const { grant } = await dana({}, null);

  await expect(grant()).rejects.toMatchObject({
    code: 'signed_out',
    message: `you are not signed in at ${provider.issuer}`,
  });
});

test('company sign-in: no message quotes an assertion or ID token that a server echoes', async () => {
  const echo = ({ form }: SeenForm) =>
    refused('access_denied', `${form.get('subject_token')} ${form.get('assertion')}`);
  const atProvider = await dana({ exchange: echo });
  const atServer = await dana({ token: echo });

  for (const { grant } of [atProvider, atServer]) {
    const error: unknown = await grant().catch((thrown: unknown) => thrown);
    expect(JSON.stringify([error, String(error)])).not.toMatch(/the-assertion|eyJ[\w-]{8}/);
  }
});

test('company sign-in: more scopes need no person', async () => {
  const { grant, sent } = await dana();
  const previous = { accessToken: 'a', obtainedAt: 0, issuer, published: true, scope: 'special' };

  await grant(previous, true);

  expect(sent(exchangeEndpoint)[0]?.['scope']).toBe('read run special');
});

test('provider: one that a server named must not be further inside than that server', async () => {
  const inside = { issuer: 'https://10.0.0.5', clientId: 'c' };
  const { http } = web({
    'https://10.0.0.5/.well-known/oauth-authorization-server': {
      json: { issuer: inside.issuer, token_endpoint: `${inside.issuer}/token` },
    },
  });

  expect(await providerServer(inside, { http })).toMatchObject({ issuer: inside.issuer });
  await expect(providerServer({ ...inside, namedBy: url }, { http })).rejects.toMatchObject({
    code: 'metadata',
  });
});

test('company sign-in: who signed in to the server itself before goes on with that until it ends', async () => {
  const { store, sent, ports } = await dana({ token: () => renewed('') }, null);
  const vault = tokenVault(store, 'access token x');
  const expired = { accessToken: 'a0', obtainedAt: 0, expiresAt: 1, issuer, published: true };
  await vault.save({ ...expired, refresh: { refreshToken: 'own', clientId: 'c' } });
  const credentials = { kind: 'authorization_code' as const };
  const connection = { name: 'sales', url, source: 'test', credentials };
  const none = () => Promise.reject(new Error('not needed'));
  const tokens = accountTokens(
    {
      ...ports,
      connection,
      vault,
      signInLock: processRefreshLock(),
      marks: fileMarks('/nowhere', url, ports.clock),
      forgetCached: none,
      provider: () => Promise.resolve(provider),
      learnProvider: none,
      sharedServers: none,
      device: none,
      readAssertion: none,
      listen: none,
    },
    { signIn: none, readAhead: true, log: jsonLinesLog('error', () => undefined) },
  );

  expect(await tokens.accessToken()).toBe('x');
  expect(sent(tokenEndpoint).map((form) => form['grant_type'])).toEqual(['refresh_token']);
  expect(sent(exchangeEndpoint)).toEqual([]);
});

test('company sign-in: a Latchkey server is told which computer asks, another one is not', async () => {
  const { sent, ports } = await dana();
  const device = async () => ({ id: 'd'.repeat(22), name: 'laptop', system: 'Linux' });
  for (const named of [{}, { clientId: 'client_of_dana' }]) {
    const credentials = { kind: 'authorization_code', ...named } as const;
    await managedGrant({ url, credentials, provider }, { wider: false }, { ...ports, device });
  }

  expect(sent(tokenEndpoint)).toMatchObject([
    { device_id: 'd'.repeat(22), device_name: 'laptop', device_system: 'Linux' },
    { client_id: 'client_of_dana' },
  ]);
  expect(sent(tokenEndpoint)[1]).not.toHaveProperty('device_id');
  for (const form of sent(exchangeEndpoint)) expect(form).not.toHaveProperty('device_id');
});

test('company sign-in: a computer that the server signed out needs a new sign-in at the provider, not another look at its session', async () => {
  const words = 'signed out: this device was signed out after the person signed in';
  const { grant } = await dana({ token: () => refused('invalid_grant', words) });

  await expect(grant()).rejects.toMatchObject({
    name: 'TokenError',
    code: 'signed_out',
    cause: { code: 'refused' },
  });
});
