import { decodeJwt } from 'jose';
import { expect, test, vi } from 'vitest';

import { throughSteps, type UpstreamAnswer, type UpstreamRequest } from '#server/gateway/upstream';
import { accessTokens } from '#server/oauth/access-tokens';
import { UpstreamAccessError } from '#server/upstreams/credentials/access';
import {
  authorizationStep,
  callerAssertion,
  type UpstreamCredentials,
} from '#server/upstreams/credentials/authorization';
import { freshSigningKeys } from '#support/fresh-signing-keys';
import { stillClock } from '#support/still-clock';

const page = 'https://cloud.example/dashboard/acme/servers/web/account';
const request: UpstreamRequest = {
  method: 'POST',
  headers: { accept: 'application/json' },
  body: Buffer.from('{}'),
  signal: new AbortController().signal,
};
const answered = (status: number, challenge?: string): UpstreamAnswer => ({
  status,
  mediaType: 'application/json',
  sessionId: undefined,
  retryAfterSeconds: undefined,
  challenge,
  body: Buffer.from('{}'),
});

/** An upstream that gives these answers in turn, and the headers that it got. */
function upstreamOf(
  answers: readonly UpstreamAnswer[],
  credentials: Omit<UpstreamCredentials, 'page'>,
) {
  const left = [...answers];
  const send = vi.fn(async (_sent: UpstreamRequest) => left.shift() ?? answered(500));
  const upstream = { send: throughSteps([authorizationStep({ ...credentials, page })], send) };
  const seen = () => send.mock.calls.map(([{ headers }]) => headers);
  return { upstream, seen };
}

test('a token that is refused is renewed, and the request sent once more', async () => {
  const token = vi.fn(async (rejected?: string) => (rejected === undefined ? 'old' : 'new'));
  const { upstream, seen } = upstreamOf([answered(401), answered(200)], { token });

  expect((await upstream.send(request)).status).toBe(200);
  expect(seen().map((headers) => headers['authorization'])).toEqual(['Bearer old', 'Bearer new']);
  expect(token.mock.calls).toEqual([[], ['old']]);
});

test('an upstream that refuses a new token too gets no third request', async () => {
  const answers = [answered(401), answered(401), answered(200)];
  const { upstream, seen } = upstreamOf(answers, { token: async () => 'token' });

  await expect(upstream.send(request)).rejects.toMatchObject({ code: 'token_refused', page });
  expect(seen()).toHaveLength(2);
});

test.each([
  ['Bearer error="insufficient_scope", scope="write"', 'scope_missing'],
  ['Bearer error=insufficient_scope', 'scope_missing'],
])('403 with %s means that the account lacks a scope', async (challenge, code) => {
  const { upstream } = upstreamOf([answered(403, challenge)], { token: async () => 'token' });

  await expect(upstream.send(request)).rejects.toMatchObject({ code, page });
});

test('another 403 is passed on', async () => {
  const { upstream } = upstreamOf([answered(403)], { token: async () => 'token' });

  expect((await upstream.send(request)).status).toBe(403);
});

test.each([
  ['not_connected', 'not_connected'],
  ['unreachable', 'unreachable'],
  ['refused', 'no_token'],
  ['forbidden', 'no_token'],
] as const)('no token, as it is %s: the upstream gets no request', async (code, told) => {
  const token = () => Promise.reject(new UpstreamAccessError(code, 'why'));
  const { upstream, seen } = upstreamOf([answered(200)], { token });

  await expect(upstream.send(request)).rejects.toMatchObject({ code: told });
  expect(seen()).toEqual([]);
});

test('an assertion is the only bearer, and has its own header beside a token', async () => {
  const assertion = async () => 'who';
  const alone = upstreamOf([answered(200)], { assertion });
  const beside = upstreamOf([answered(200)], { assertion, token: async () => 'token' });
  await alone.upstream.send(request);
  await beside.upstream.send(request);

  expect(alone.seen()).toEqual([{ ...request.headers, authorization: 'Bearer who' }]);
  expect(beside.seen()).toEqual([
    { ...request.headers, authorization: 'Bearer token', 'latchkey-caller': 'who' },
  ]);
});

test('an assertion has its own header beside a fixed Authorization', async () => {
  const fixed = { assertion: async () => 'who', isAuthorizationFixed: true };
  const { upstream, seen } = upstreamOf([answered(200)], fixed);
  await upstream.send(request);

  expect(seen()).toEqual([{ ...request.headers, 'latchkey-caller': 'who' }]);
});

const base = 'https://cloud.example';
const endpoint = `${base}/mcp/acme/sales`;
const caller = {
  subject: 'user_dana',
  clientId: 'client_1',
  scopes: ['mcp:tools:read'],
  endpoint,
} as const;

async function asserted(url: string) {
  const clock = stillClock();
  const keys = await freshSigningKeys(clock);
  return callerAssertion(url, caller, { base, tokens: accessTokens(base, { keys, clock }), clock });
}

test('an assertion names the caller, to this upstream alone, for a minute', async () => {
  const claims = decodeJwt((await asserted('https://mcp.example/mcp')) ?? '');

  expect(claims).toMatchObject({
    iss: base,
    aud: 'https://mcp.example/mcp',
    sub: 'user_dana',
    client_id: 'client_1',
    scope: 'mcp:tools:read',
    endpoint,
  });
  expect((claims.exp ?? 0) - (claims.iat ?? 0)).toBe(60);
});

test.each([`${base}/mcp/acme/sales`, `${base}:443/mcp/acme/sales`, 'https://CLOUD.example/x'])(
  'no assertion is made for %s, where it could be mistaken for a token of ours',
  async (url) => {
    expect(await asserted(url)).toBeUndefined();
  },
);
