import { randomUUID } from 'node:crypto';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { insertClient, revokeClient } from '#server/db/clients';
import { insertServer } from '#server/db/servers';
import { insertTrustRule, type TrustRule } from '#server/db/trust-rules';
import { tokenEndpoint } from '#server/oauth/grants';
import { matchesSubject } from '#server/oauth/workload-grant';
import {
  assertionIssuer,
  type AssertionIssuer,
  jwtBearer,
  type Signed,
} from '#support/assertion-issuer';
import {
  authorizationServer,
  refusal,
  type AuthorizationServer,
} from '#support/authorization-server';
import { insertSomeProvider } from '#support/some-provider';

let made: AuthorizationServer;
let ci: AssertionIssuer;
let base: string;
const subject = 'repo:acme/app:ref:refs/heads/main';

beforeEach(async () => {
  made = await authorizationServer();
  ci = await assertionIssuer();
  base = made.base;
  await insertServer(made.stores.db, {
    id: 'srv_wiki',
    organizationId: 'org_acme',
    name: 'wiki',
    upstream: { kind: 'demo' },
    targetId: 'target_wiki',
    createdAt: 1,
  });
});
afterEach(async () => {
  await ci[Symbol.asyncDispose]();
  await made[Symbol.asyncDispose]();
});

/** Makes a client of the whole organization that trusts the CI system. */
async function trust(but: Partial<TrustRule> = {}, serverId?: string): Promise<string> {
  const clientId = `client_${randomUUID()}`;
  await insertClient(made.stores.db, {
    id: clientId,
    name: 'CI',
    serverId,
    ...(serverId === undefined && { organizationId: 'org_acme' }),
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    redirectUris: [],
    jwks: undefined,
    authenticationRequired: true,
    secretHash: undefined,
    secretHint: undefined,
    createdAt: 1,
  });
  await insertTrustRule(made.stores.db, {
    clientId,
    issuer: ci.issuer,
    keysUrl: undefined,
    jwks: undefined,
    audience: undefined,
    subject,
    claim: undefined,
    longestLifeSeconds: 600,
    isSingleUse: true,
    ...but,
  });
  return clientId;
}

const token = ({ claims = {}, header = {} }: Signed = {}) => {
  const now = made.clock.now();
  const right = { sub: subject, aud: base, jti: randomUUID(), iat: now, exp: now + 300, ...claims };
  return ci.sign({ claims: right, header });
};

type Fields = Readonly<Record<string, string | undefined>>;

const ask = async (text: string, but: Fields = {}) => {
  const fields = {
    grant_type: jwtBearer,
    assertion: text,
    resource: `${base}/mcp/acme/sales`,
    ...but,
  };
  const form = new Map(
    Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const url = `${base}/api/oauth/token`;
  const { tokens } = await tokenEndpoint({ form, method: 'POST', url, headers: {} }, made.ports);
  return tokens;
};
const grant = refusal('invalid_grant');

test('workload: its token gives one of the client for the server that the request names, without a secret', async () => {
  const clientId = await trust();
  const tokens = await ask(await token());

  expect(tokens).toEqual({
    access_token: expect.stringMatching(/^eyJ/),
    token_type: 'Bearer',
    expires_in: 3600,
    scope: 'mcp:tools:read mcp:tools:execute',
  });
  const claims = await made.claims(tokens.access_token);
  expect(claims).toMatchObject({ subject: clientId, clientId });
  expect(claims.audience).toBe(`${base}/mcp/acme/sales`);
  expect(await made.admitted(tokens.access_token)).toBeDefined();
});

test.each<[string, Fields | Signed]>([
  [
    'the token endpoint as audience',
    { claims: { aud: 'https://latchkey.example/api/oauth/token' } },
  ],
  ['the issuer with a slash as audience', { claims: { aud: 'https://latchkey.example/' } }],
  ['one audience in a list', { claims: { aud: ['https://latchkey.example'] } }],
  ['no type', { header: { typ: undefined } }],
  ['the type JWT', { header: { typ: 'JWT' } }],
  ['no jti', { claims: { jti: undefined } }],
])('workload: a token with %s is accepted', async (_, but) => {
  await trust();

  expect(await ask(await token(but as Signed))).toMatchObject({ token_type: 'Bearer' });
});

test.each<[string, Signed]>([
  ['another subject', { claims: { sub: 'repo:acme/app:ref:refs/heads/other' } }],
  ['the subject in another case', { claims: { sub: subject.toUpperCase() } }],
  ['another audience', { claims: { aud: 'https://other.example' } }],
  ['two audiences', { claims: { aud: ['https://latchkey.example', 'https://other.example'] } }],
  ['a longer life than allowed', { claims: { exp: 1_800_000_700 } }],
  ['an iat in the future', { claims: { iat: 1_800_000_100 } }],
  ['no exp', { claims: { exp: undefined } }],
  ['the type of an access token', { header: { typ: 'at+jwt' } }],
  ['the type of a logout token', { header: { typ: 'logout+jwt' } }],
])('workload: a token with %s is refused', async (_, but) => {
  await trust();

  await expect(ask(await token(but))).rejects.toMatchObject(grant);
});

test('workload: a token works once, with and without jti, unless the rule says otherwise', async () => {
  await trust();
  for (const jti of ['same', undefined]) {
    const text = await token({ claims: { jti } });
    await ask(text);
    await expect(ask(text)).rejects.toMatchObject(grant);
  }
  await trust({ subject: 'system:serviceaccount:ci:runner', isSingleUse: false });
  const kept = await token({ claims: { sub: 'system:serviceaccount:ci:runner' } });
  await ask(kept);

  expect(await ask(kept)).toBeDefined();
});

test('workload: a second claim must have its value, where the rule names one', async () => {
  await trust({ claim: { name: 'repository_owner_id', value: '42' } });

  await expect(ask(await token())).rejects.toMatchObject(grant);
  await expect(ask(await token({ claims: { repository_owner_id: '43' } }))).rejects.toMatchObject(
    grant,
  );
  expect(await ask(await token({ claims: { repository_owner_id: 42 } }))).toBeDefined();
});

test('workload: exactly one rule must match', async () => {
  await trust({ subject: 'repo:acme/app:*' });
  expect(await ask(await token())).toBeDefined();
  const other = await trust();

  await expect(ask(await token())).rejects.toMatchObject(grant);
  await revokeClient(made.stores.db, other, made.clock.now());
  expect(await ask(await token())).toBeDefined();
});

test('workload: the client of one server gets tokens for that one', async () => {
  await trust({}, 'srv_wiki');

  await expect(ask(await token())).rejects.toMatchObject(grant);
  const wiki = { resource: `${base}/mcp/acme/wiki` };
  expect(await ask(await token(), wiki)).toBeDefined();
});

test.each<[string, Fields, Parameters<typeof refusal>[0]]>([
  ['without a resource', { resource: undefined }, 'invalid_request'],
  ['for another resource', { resource: 'https://other.example/mcp/acme/sales' }, 'invalid_grant'],
  ['for no server', { resource: 'https://latchkey.example/mcp/acme/none' }, 'invalid_grant'],
  ['with a client secret', { client_id: 'x', client_secret: 'x' }, 'invalid_request'],
  ['with the id of another client', { client_id: 'client_other' }, 'invalid_grant'],
  ['for more scopes than the client has', { scope: 'mcp:server:manage' }, 'invalid_scope'],
])('workload: a request %s is refused', async (_, but, code) => {
  await trust();

  await expect(ask(await token(), but)).rejects.toMatchObject(refusal(code));
});

test('workload: the audience of a rule replaces that of the server', async () => {
  await trust({ audience: 'api://latchkey' });

  await expect(ask(await token())).rejects.toMatchObject(grant);
  expect(await ask(await token({ claims: { aud: 'api://latchkey' } }))).toBeDefined();
});

test('workload: keys can be given with the rule, or at another URL', async () => {
  const jwks = JSON.stringify(ci.jwks);
  await trust({ subject: 'inline', jwks });
  await trust({ subject: 'url', keysUrl: ci.keysUrl });
  ci.fail(500);
  expect(await ask(await token({ claims: { sub: 'inline' } }))).toBeDefined();
  await expect(ask(await token({ claims: { sub: 'url' } }))).rejects.toMatchObject(grant);
  ci.fail(undefined);
  await made.clock.advance(30);

  expect(await ask(await token({ claims: { sub: 'url' } }))).toBeDefined();
});

test('workload: the issuer of an identity provider of the organization is none of workloads', async () => {
  await trust();
  await insertSomeProvider(made.stores.db, { issuer: ci.issuer });

  await expect(ask(await token())).rejects.toMatchObject(grant);
});

test('workload: a disabled organization has none', async () => {
  await trust();
  const { db } = made.stores;
  await db.updateTable('organization').set({ disabled_at: 1 }).execute();

  await expect(ask(await token())).rejects.toMatchObject(grant);
});

test('workload: an identity assertion is none of its tokens', async () => {
  await trust();
  const text = await token({ header: { typ: 'oauth-id-jag+jwt' } });

  await expect(ask(text)).rejects.toMatchObject(refusal('invalid_request'));
});

test.each([
  ['repo:acme/app:*', 'repo:acme/app:ref:refs/heads/main', true],
  ['repo:acme/app:*', 'repo:acme/app:', false],
  ['repo:acme/app:*', 'repo:acme/app2:x', false],
  ['repo:acme/*', 'repo:acme/app', true],
  ['exact', 'exact', true],
  ['exact', 'exactly', false],
])('workload: the subject %s matches %s: %s', (pattern, sub, expected) => {
  expect(matchesSubject(pattern, sub)).toBe(expected);
});
