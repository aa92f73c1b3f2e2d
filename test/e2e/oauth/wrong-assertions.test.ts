import { randomUUID } from 'node:crypto';

import { generateKeyPair, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { Signed } from '#support/assertion-issuer';
import { vouchingCompany, type VouchingCompany } from '#support/vouching-company';

let company: VouchingCompany;
/** Every assertion that was sent. */
const sent: string[] = [];
beforeAll(async () => {
  company = await vouchingCompany();
});
afterAll(() => company[Symbol.asyncDispose]());

interface Wrong {
  readonly signed?: Signed;
  /** Fields of the request. */
  readonly form?: Readonly<Record<string, string | undefined>>;
  readonly headers?: Record<string, string>;
  /** Changes the text of the assertion. */
  readonly text?: (right: string) => string | Promise<string>;
  readonly error?: string;
}

const now = () => Math.floor(Date.now() / 1000);
const claim = (claims: Record<string, unknown>): Wrong => ({ signed: { claims } });
const header = (members: Record<string, unknown>): Wrong => ({ signed: { header: members } });
const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
const claimsOf = (text: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(text.split('.')[1] ?? '', 'base64url').toString('utf8'));
const withHeader = (text: string, members: object) =>
  [encoded(members), ...text.split('.').slice(1)].join('.');
const publicKey = async () => JSON.stringify(company.id.jwks.keys[0]);

const cases: readonly (readonly [string, () => Wrong])[] = [
  ['no issuer', () => claim({ iss: undefined })],
  ['another issuer', () => claim({ iss: 'https://evil.example' })],
  ['the issuer with a slash', () => claim({ iss: `${company.id.issuer}/` })],
  ['the issuer in capitals', () => claim({ iss: company.id.issuer.toUpperCase() })],
  ['an issuer that is a list', () => claim({ iss: [company.id.issuer] })],
  ['the issuer of another organization', () => claim({ iss: company.otherId.issuer })],
  ['no subject', () => claim({ sub: undefined })],
  ['an empty subject', () => claim({ sub: '' })],
  ['a subject that is a number', () => claim({ sub: 7 })],
  ['a subject that is a list', () => claim({ sub: ['dana there'] })],
  ['a subject of a thousand characters', () => claim({ sub: 'x'.repeat(1000) })],
  ['no audience', () => claim({ aud: undefined })],
  ['another audience', () => claim({ aud: 'https://evil.example' })],
  [
    'the token endpoint as audience',
    () => claim({ aud: `${company.server.base}/api/oauth/token` }),
  ],
  ['the server as audience', () => claim({ aud: `${company.server.base}/mcp/acme/sales` })],
  ['our client as audience', () => claim({ aud: company.client.id })],
  ['a second audience', () => claim({ aud: [company.server.base, 'https://evil.example'] })],
  ['an empty list of audiences', () => claim({ aud: [] })],
  ['no expiry', () => claim({ exp: undefined })],
  ['an expiry in the past', () => claim({ exp: now() - 60 })],
  ['an expiry that is text', () => claim({ exp: String(now() + 300) })],
  ['an expiry in two hours', () => claim({ exp: now() + 7200 })],
  ['an expiry in a hundred years', () => claim({ exp: now() + 3_153_600_000 })],
  ['an expiry of zero', () => claim({ exp: 0 })],
  ['no time of issue', () => claim({ iat: undefined })],
  ['a time of issue in the future', () => claim({ iat: now() + 120 })],
  ['a time of issue that is text', () => claim({ iat: 'now' })],
  ['a time of issue hours ago', () => claim({ iat: now() - 7200 })],
  ['nbf in the future', () => claim({ nbf: now() + 120 })],
  ['nbf that is text', () => claim({ nbf: 'tomorrow' })],
  ['no jti', () => claim({ jti: undefined })],
  ['an empty jti', () => claim({ jti: '' })],
  ['a jti that is a number', () => claim({ jti: 1 })],
  ['a jti of a thousand characters', () => claim({ jti: 'x'.repeat(1000) })],
  ['no client_id', () => claim({ client_id: undefined })],
  ['another client_id', () => claim({ client_id: 'client_other' })],
  ['the client of another organization', () => claim({ client_id: company.otherClient.id })],
  ['a list of clients', () => claim({ client_id: [company.client.id] })],
  ['no resource', () => claim({ resource: undefined })],
  [
    'the resource of another server',
    () => claim({ resource: 'https://evil.example/mcp/acme/sales' }),
  ],
  [
    'a resource that does not exist',
    () => claim({ resource: `${company.server.base}/mcp/acme/none` }),
  ],
  [
    'a resource of another organization',
    () => claim({ resource: `${company.server.base}/mcp/other/sales` }),
  ],
  ['the whole server as resource', () => claim({ resource: company.server.base })],
  ['an organization as resource', () => claim({ resource: `${company.server.base}/mcp/acme` })],
  ['a resource with a slash', () => claim({ resource: `${company.server.base}/mcp/acme/sales/` })],
  ['a resource with a query', () => claim({ resource: `${company.server.base}/mcp/acme/sales?x` })],
  [
    'a resource with dots',
    () => claim({ resource: `${company.server.base}/mcp/other/../acme/sales` }),
  ],
  [
    'several resources, none of which is requested',
    () =>
      claim({
        resource: ['sales', 'wiki'].map((name) => `${company.server.base}/mcp/acme/${name}`),
      }),
  ],
  ['an empty list of resources', () => claim({ resource: [] })],
  [
    'another resource than requested',
    () => ({ form: { resource: `${company.server.base}/mcp/acme/wiki` } }),
  ],
  ['a scope that is empty', () => claim({ scope: '' })],
  ['unknown scopes only', () => claim({ scope: 'openid profile' })],
  ['a scope that is a list', () => claim({ scope: ['mcp:tools:read'] })],
  ['a scope beyond the role', () => claim({ scope: 'mcp:server:manage' })],
  [
    'another scope than requested',
    () => ({ ...claim({ scope: 'mcp:tools:read' }), form: { scope: 'mcp:tools:execute' } }),
  ],
  ['an unverified address', () => claim({ sub: 'new', email_verified: false })],
  ['an address without email_verified', () => claim({ sub: 'new', email_verified: undefined })],
  ['an address of no one', () => claim({ sub: 'new', email: 'nobody@acme.example' })],
  ['an address of another domain', () => claim({ sub: 'new', email: 'eve@other.example' })],
  ['no type', () => ({ ...header({ typ: undefined }), error: 'invalid_request' })],
  ['the type JWT', () => ({ ...header({ typ: 'JWT' }), error: 'invalid_request' })],
  [
    'the type of an access token',
    () => ({ ...header({ typ: 'at+jwt' }), error: 'invalid_request' }),
  ],
  ['an unknown kid', () => header({ kid: 'unknown' })],
  [
    'a critical member that is unknown',
    () => ({
      text: (right) =>
        withHeader(right, { alg: 'ES256', typ: 'oauth-id-jag+jwt', crit: ['x'], x: 1 }),
    }),
  ],
  [
    'a payload that is not encoded',
    () => ({
      text: (right) =>
        withHeader(right, { alg: 'ES256', typ: 'oauth-id-jag+jwt', crit: ['b64'], b64: false }),
    }),
  ],
  [
    'the algorithm none',
    () => ({
      text: (right) => {
        const [, payload] = new UnsecuredJWT(claimsOf(right)).encode().split('.');
        return `${encoded({ alg: 'none', typ: 'oauth-id-jag+jwt' })}.${payload}.`;
      },
    }),
  ],
  [
    'the algorithm none with a signature',
    () => ({ text: (right) => withHeader(right, { alg: 'none', typ: 'oauth-id-jag+jwt' }) }),
  ],
  [
    'a signature by the public key as a secret',
    () => ({
      text: async (right) =>
        company.id.sign(
          { claims: claimsOf(right), header: { alg: 'HS256', typ: 'oauth-id-jag+jwt' } },
          new TextEncoder().encode(await publicKey()),
        ),
    }),
  ],
  [
    'a signature by another key',
    () => ({
      text: async (right) =>
        company.id.sign(
          { claims: claimsOf(right), header: { typ: 'oauth-id-jag+jwt' } },
          (await generateKeyPair('ES256')).privateKey,
        ),
    }),
  ],
  [
    'a key of its own in the header',
    () => ({
      text: async (right) =>
        company.id.sign(
          {
            claims: claimsOf(right),
            header: { typ: 'oauth-id-jag+jwt', kid: undefined, jwk: company.otherId.jwks.keys[0] },
          },
          company.otherId.privateKey,
        ),
    }),
  ],
  [
    'the URL of keys of its own in the header',
    () => ({
      text: async (right) =>
        company.id.sign(
          {
            claims: claimsOf(right),
            header: { typ: 'oauth-id-jag+jwt', kid: undefined, jku: company.otherId.keysUrl },
          },
          company.otherId.privateKey,
        ),
    }),
  ],
  [
    'claims that were changed',
    () => ({
      text: (right) => {
        const [head, , signature] = right.split('.');
        return [head, encoded({ ...claimsOf(right), sub: 'eve there' }), signature].join('.');
      },
    }),
  ],
  ['no signature', () => ({ text: (right) => right.slice(0, right.lastIndexOf('.') + 1) })],
  ['half a signature', () => ({ text: (right) => right.slice(0, -40) })],
  ['four parts', () => ({ text: (right) => `${right}.x` })],
  ['text that is no JWT', () => ({ text: () => `no-jwt-${randomUUID()}` })],
  ['nothing', () => ({ text: () => '', error: 'invalid_request' })],
  ['more than eight kilobytes', () => ({ text: (right) => `${right}${'A'.repeat(9000)}` })],
  [
    'no client',
    () => ({ form: { client_id: undefined, client_secret: undefined }, error: 'invalid_request' }),
  ],
  [
    'a client without its secret',
    () => ({ form: { client_secret: undefined }, error: 'invalid_client' }),
  ],
  [
    'a client with a wrong secret',
    () => ({ form: { client_secret: `secret_${'x'.repeat(30)}` }, error: 'invalid_client' }),
  ],
  [
    'another client',
    () => ({
      form: { client_id: company.otherClient.id, client_secret: company.otherClient.secret },
      error: 'unauthorized_client',
    }),
  ],
];

test('identity assertion: the right one is accepted, so that each of the wrong ones is wrong in one way', async () => {
  const text = await company.assertion();
  const answer = await company.exchange(text);
  sent.push(text);

  expect(answer).toMatchObject({ status: 200 });
  expect(await company.call(answer.body.access_token ?? '')).toBe(200);
});

test('identity assertion: those that come once its header is known are accepted too, before the wrong ones', async () => {
  const again = async () => company.exchange(await company.assertion());

  expect([await again(), await again()]).toMatchObject([{ status: 200 }, { status: 200 }]);
});

test.each(cases)('identity assertion: one with %s is refused', async (_, make) => {
  const {
    signed = {},
    form = {},
    headers = {},
    text = (right) => right,
    error = 'invalid_grant',
  } = make();
  const wrong = await text(await company.assertion(signed));
  sent.push(wrong);
  const answer = await company.exchange(wrong, form, headers);

  expect(answer).toEqual({ status: error === 'invalid_client' ? 401 : 400, body: { error } });
});

test('identity assertion: the log contains none of them, nor a part that could be used', () => {
  const { stdout, stderr } = company.server.program;
  const log = stdout + stderr;
  const parts = sent
    .flatMap((text) => text.split('.').slice(1))
    .filter(({ length }) => length > 20);

  expect(cases.length).toBeGreaterThanOrEqual(60);
  expect(log).toContain('invalid_grant');
  expect(parts.filter((part) => log.includes(part))).toEqual([]);
});
