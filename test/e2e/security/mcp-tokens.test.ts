import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  type KeyObject,
} from 'node:crypto';
import { createServer } from 'node:net';
import { join } from 'node:path';

import { afterAll, beforeEach, expect, test } from 'vitest';

import { listSigningKeys } from '#server/db/signing-keys';
import { readMasterKey } from '#server/secrets/master-key';
import { openStores } from '#server/app/stores';
import { gatewayUnderTest } from '#support/gateway-under-test';
import { listen } from '#support/loopback';
import { mcpCall } from '#support/mcp-call';
import { recordingUpstream } from '#support/upstreams/recording-upstream';

const upstream = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const { base, endpoint, dataDir } = gateway;
await gateway.command('server', 'create', 'acme/other', '--http-url', upstream.url);

/** Counts the connections that are made to fetch a key. */
let fetched = 0;
const listener = createServer((socket) => {
  fetched += 1;
  socket.destroy();
});
const keyUrl = `http://127.0.0.1:${await listen(listener)}/jwks.json`;

const issued = await gateway.newToken('acme/fixture', 'mcp:tools:read');
const otherIssued = await gateway.newToken('acme/other', 'mcp:tools:read');
const genuine = parts(issued);

// The key that the server signs with, so that each forgery is wrong in one thing only.
const stores = await openStores(dataDir);
const [stored] = await listSigningKeys(stores.db);
await stores.close();
const { kid = '', publicJwk = '', encryptedPrivateKey = '' } = stored ?? {};
const master = readMasterKey(join(dataDir, 'master.key'), { mayCreate: false });
const ownKey = createPrivateKey(master.open(`signing-key ${kid}`, encryptedPrivateKey));
const foreign = generateKeyPairSync('ed25519');

beforeEach(() => void upstream.requests.splice(0));

afterAll(async () => {
  listener.close();
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

type Json = Readonly<Record<string, unknown>>;

function parts(token: string): { header: Json; claims: Json } {
  const [header = '', claims = ''] = token.split('.');
  const read = (text: string): Json =>
    Object(JSON.parse(Buffer.from(text, 'base64url').toString('utf8')));
  return { header: read(header), claims: read(claims) };
}

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** The genuine token with these changes, signed. */
function forged(header: Json, claims: Json = {}, key: KeyObject = ownKey): string {
  const body = `${encode({ ...genuine.header, ...header })}.${encode({ ...genuine.claims, ...claims })}`;
  return `${body}.${sign(null, Buffer.from(body), key).toString('base64url')}`;
}

function hmac(secret: string | Buffer): string {
  const body = `${encode({ ...genuine.header, alg: 'HS256' })}.${encode(genuine.claims)}`;
  return `${body}.${createHmac('sha256', secret).update(body).digest('base64url')}`;
}

function ecdsa(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const body = `${encode({ ...genuine.header, alg: 'ES256' })}.${encode(genuine.claims)}`;
  const signature = sign('sha256', Buffer.from(body), {
    key: privateKey,
    dsaEncoding: 'ieee-p1363',
  });
  return `${body}.${signature.toString('base64url')}`;
}

/** The same signature with its unused bits set. */
function respelt(token: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return token.slice(0, -1) + alphabet.charAt(alphabet.indexOf(token.slice(-1)) + 1);
}

const foreignJwk = foreign.publicKey.export({ format: 'jwk' });
const unsigned = (alg: string) => `${encode({ ...genuine.header, alg })}.${encode(genuine.claims)}`;
const nowSeconds = () => Math.floor(Date.now() / 1000);

const forgeries: Readonly<Record<string, string>> = {
  'alg none without a signature': `${unsigned('none')}.`,
  'alg NONE': `${unsigned('NONE')}.`,
  'alg none with the genuine signature': `${unsigned('none')}.${issued.split('.')[2] ?? ''}`,
  'HS256 with the public JWK': hmac(publicJwk),
  'HS256 with the public bytes': hmac(
    Buffer.from(String(Object(JSON.parse(publicJwk))['x']), 'base64url'),
  ),
  'HS256 with the public PEM': hmac(
    createPublicKey(ownKey).export({ type: 'spki', format: 'pem' }),
  ),
  'HS256 with nothing': hmac(''),
  'another key type': ecdsa(),
  'the key of somebody else': forged({}, {}, foreign.privateKey),
  'the key of somebody else under jwk': forged({ jwk: foreignJwk }, {}, foreign.privateKey),
  'an unknown kid': forged({ kid: 'unknown' }),
  'no kid': forged({ kid: undefined }),
  'a path as kid': forged({ kid: '../../etc/passwd' }),
  'SQL as kid': forged({ kid: "' or 1=1 --" }),
  'a prototype as kid': forged({ kid: '__proto__' }),
  'a URL as kid': forged({ kid: keyUrl }),
  'jku and a foreign key': forged({ jku: keyUrl, kid: 'theirs' }, {}, foreign.privateKey),
  'x5u and a foreign key': forged({ x5u: keyUrl, kid: 'theirs' }, {}, foreign.privateKey),
  'jku and our kid': forged({ jku: keyUrl }, {}, foreign.privateKey),
  'an unknown crit': forged({ crit: ['odd'], odd: true }),
  'an empty crit': forged({ crit: [] }),
  'typ JWT': forged({ typ: 'JWT' }),
  'no typ': forged({ typ: undefined }),
  'typ of an ID token': forged({ typ: 'id+jwt' }),
  'a signature spelt otherwise': respelt(issued),
  'a padded signature': `${issued}==`,
  'no signature': issued.split('.').slice(0, 2).join('.'),
  'five parts': `${issued}.a.b`,
  '12 KB': forged({}, { filler: 'x'.repeat(8000) }),
  'changed claims': [
    issued.split('.')[0],
    encode({ ...genuine.claims, scope: 'mcp:server:manage' }),
    issued.split('.')[2],
  ].join('.'),
  'no JWT at all': 'token',
};

const wrongClaims: Readonly<Record<string, string>> = {
  'another issuer': forged({}, { iss: 'http://evil' }),
  'our issuer with a slash': forged({}, { iss: `${base}/` }),
  'no issuer': forged({}, { iss: undefined }),
  'another server of the organization': otherIssued,
  'the audience of another server': forged({}, { aud: `${base}/mcp/acme/other` }),
  'this audience for the client of another server': forged(
    {},
    { client_id: parts(otherIssued).claims['client_id'] },
  ),
  'an audience with a slash': forged({}, { aud: `${endpoint}/` }),
  'two audiences': forged({}, { aud: [endpoint, `${base}/mcp/acme/other`] }),
  'no audience': forged({}, { aud: undefined }),
  'the server as the audience': forged({}, { aud: base }),
  expired: forged({}, { exp: nowSeconds() - 1 }),
  'never expiring': forged({}, { exp: undefined }),
  'an expiry that is no number': forged({}, { exp: '9999999999' }),
  'not valid yet': forged({}, { nbf: nowSeconds() + 3600 }),
  'an unknown client': forged({}, { client_id: 'client_unknown' }),
  'no client': forged({}, { client_id: undefined }),
  'no jti': forged({}, { jti: undefined }),
  'a token of the upstream': forged(
    {},
    { iss: upstream.url, aud: upstream.url },
    foreign.privateKey,
  ),
};

test('55: access token: one signed with the server’s own key and otherwise correct is accepted', async () => {
  expect((await mcpCall(endpoint, { token: issued })).status).toBe(200);
  expect((await mcpCall(endpoint, { token: forged({}) })).status).toBe(200);
  expect((await mcpCall(endpoint, { token: forged({}, { jti: 'another' }) })).status).toBe(200);
  expect((await mcpCall(`${base}/mcp/acme/other`, { token: otherIssued })).status).toBe(200);
});

test.for(Object.entries(forgeries))('54: access token: %s is refused', async ([, token]) => {
  const answer = await mcpCall(endpoint, { token });

  expect(answer.status).toBe(401);
  expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"');
  expect(fetched).toBe(0);
  expect(upstream.calls()).toEqual([]);
});

test('54: access token: one of 64 KB is refused by the header limit', async () => {
  const token = forged({}, { filler: 'x'.repeat(48_000) });

  expect(token.length).toBeGreaterThan(64_000);
  expect((await mcpCall(endpoint, { token })).status).toBe(431);
});

test.for(Object.entries(wrongClaims))('55: access token: %s is refused', async ([, token]) => {
  const unknown = await mcpCall(endpoint, { token: 'unknown' });
  const answer = await mcpCall(endpoint, { token });

  expect(answer.status).toBe(401);
  expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"');
  expect(answer.text).toBe(unknown.text);
  expect(upstream.calls()).toEqual([]);
});

test('55: access token: a scope that the client may not have grants nothing, even if signed', async () => {
  const token = forged({}, { scope: 'mcp:tools:read mcp:tools:execute' });
  const body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}';

  expect((await mcpCall(endpoint, { token, body })).status).toBe(403);
  expect(upstream.calls()).toEqual([]);
});
