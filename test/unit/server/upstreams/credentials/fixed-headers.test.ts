import { expect, test, vi } from 'vitest';

import {
  type FixedHeader,
  headerNameProblem,
  headerValueProblem,
} from '#server/model/fixed-headers';
import { throughSteps, type UpstreamAnswer, type UpstreamRequest } from '#server/gateway/upstream';
import { masterKey } from '#server/secrets/master-key';
import type { CredentialedTarget } from '#server/upstreams/credentials/access';
import {
  headerHint,
  headerPurpose,
  headersKeptFor,
  openedHeaders,
  overlapSeconds,
  previousOf,
  fixedHeaderStep,
  withHeader,
} from '#server/upstreams/credentials/fixed-headers';
import { someTarget } from '#support/some-admission';
import { stillClock } from '#support/still-clock';

const targetId = 'srv_1';
const url = 'https://mcp.example/mcp';
const sealing = masterKey(new Uint8Array(32).fill(7));
const start = 1_800_000_000;

const sealed = (name: string, value: string, at = url) =>
  sealing.seal(headerPurpose({ targetId, name, url: at }), value);
const header = (name: string, value: string, previous?: string): FixedHeader => ({
  name,
  sealed: sealed(name, value),
  setAt: start,
  ...(previous !== undefined && {
    previous: { sealed: sealed(name, previous), setAt: start - 9, until: start + 60 },
  }),
});
const request: UpstreamRequest = {
  method: 'POST',
  headers: { accept: 'application/json', authorization: 'Bearer token' },
  body: Buffer.from('{}'),
  signal: new AbortController().signal,
};
const answered = (status: number): UpstreamAnswer => ({
  status,
  mediaType: 'application/json',
  sessionId: undefined,
  retryAfterSeconds: undefined,
  body: Buffer.from(String(status)),
});

/** The upstream of a server with these headers, which answers with these statuses in turn, and the headers that it got. */
function asked(headers: readonly FixedHeader[], statuses: readonly number[], at = url) {
  const left = [...statuses];
  const send = vi.fn(async (_sent: UpstreamRequest) => answered(left.shift() ?? 500));
  const server: CredentialedTarget = {
    ...someTarget({ id: targetId, name: 'web' }),
    upstream: { kind: 'http', url: at, headers },
  };
  const clock = stillClock(start);
  const noteRefused = vi.fn(async () => undefined);
  const onError = vi.fn();
  const ports = { noteRefused, sealing, clock, onError };
  const upstream = { send: throughSteps([fixedHeaderStep(server, ports)], send) };
  const seen = () => send.mock.calls.map(([sent]) => sent.headers);
  return { upstream, seen, clock, noteRefused, onError };
}

test.each<readonly [string, string]>([
  ['X-Api-Key', 'right'],
  ['authorization', 'right'],
  ['Cookie', 'right'],
  ['X_Key.1~!', 'right'],
  ['', 'is empty'],
  ['x'.repeat(101), 'must have at most 100 characters'],
  ['two words', 'is not the name'],
  ['X-Key:', 'is not the name'],
  ['X-Key\r\nX-Other', 'is not the name'],
  ['x-kéy', 'is not the name'],
  ...[
    'Host',
    'CONNECTION',
    'Keep-Alive',
    'Proxy-Connection',
    'Proxy-Authorization',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Expect',
    'Content-Length',
    'Content-Type',
    'content-encoding',
    'Accept',
    'Accept-Encoding',
    'User-Agent',
    'Last-Event-ID',
    'Mcp-Session-Id',
    'MCP-Protocol-Version',
    'Mcp-Param-Region',
    'Latchkey-Caller',
  ].map((name) => [name, 'itself sets'] as const),
])('the name %j: %s', (name, problem) => {
  expect(headerNameProblem(name) ?? 'right').toContain(problem);
});

test.each([
  ['k', 'right'],
  ['Bearer a b', 'right'],
  ['x'.repeat(4096), 'right'],
  ['', 'is empty'],
  ['x'.repeat(4097), 'at most 4096'],
  ['secret\r\nX-Other: y', 'printable ASCII'],
  ['secret\n', 'printable ASCII'],
  ['secret\0', 'printable ASCII'],
  ['secret\t', 'printable ASCII'],
  ['secret\u007f', 'printable ASCII'],
  ['sécret', 'printable ASCII'],
  [' secret', 'begin or end'],
  ['secret ', 'begin or end'],
])('the value %j: %s', (value, problem) => {
  const said = headerValueProblem(value) ?? 'right';

  expect(said).toContain(problem);
  expect(said).not.toContain('secret');
});

test.each([
  ['abcdefghijklmnopqrstuvwx', '…uvwx'],
  ['Bearer abcdefghijklmnopqrstuvwx', '…uvwx'],
  ['token=abcdefghijklmnopqrstuvwx', '…uvwx'],
  ['abcdefghijklmnopqrstuvw', undefined],
  ['a much longer text whose last word is short', undefined],
  ['Basic dXNlcjphLXBhc3N3b3JkLW9mLXNvbWVib2R5', undefined],
  ['BASIC dXNlcjphLXBhc3N3b3JkLW9mLXNvbWVib2R5', undefined],
])('the hint of the value %j is %s', (value, hint) => {
  expect(headerHint(value)).toBe(hint);
});

test('a value opens for its server, its name and its origin, and for no other', () => {
  const headers = [header('x-key', 'one')];
  const at = { targetId, url };
  const [own = header('x', 'x')] = headers;

  expect(openedHeaders(headers, at, sealing)).toEqual({ 'x-key': 'one' });
  expect(openedHeaders(headers, { ...at, url: 'https://mcp.example/v2' }, sealing)).toEqual({
    'x-key': 'one',
  });
  for (const other of [
    'https://mcp.example:8443/mcp',
    'http://mcp.example/mcp',
    'https://mcp.example.evil/mcp',
  ]) {
    expect(() => openedHeaders(headers, { ...at, url: other }, sealing)).toThrow(
      'unable to authenticate',
    );
  }
  expect(() => openedHeaders(headers, { ...at, targetId: 'srv_2' }, sealing)).toThrow(
    'unable to authenticate',
  );
  expect(() => openedHeaders([{ ...own, name: 'x-other' }], at, sealing)).toThrow(
    'unable to authenticate',
  );
});

test.each([
  ['https://mcp.example/other', 1],
  ['https://mcp.example:443/', 1],
  ['https://mcp.example:8443/mcp', 0],
  ['http://mcp.example/mcp', 0],
  ['https://www.mcp.example/mcp', 0],
])('a server whose URL changes to %s keeps %i of its headers', (to, count) => {
  const from = { url, headers: [header('x-key', 'one')] };

  expect(headersKeptFor(from, { url: to })).toHaveLength(count);
});

test('a replaced value remains as the previous one during the overlap, and the one before it does not', () => {
  const first = withHeader([], header('x-key', 'one'), start);
  const second = withHeader(first, { ...header('x-key', 'two'), setAt: start + 1 }, start + 1);
  const third = withHeader(second, { ...header('x-key', 'three'), setAt: start + 2 }, start + 2);
  const [kept = header('x', 'x')] = third;
  const open = (value: string) =>
    sealing.open(headerPurpose({ targetId, name: 'x-key', url }), value);

  expect(third).toHaveLength(1);
  expect([open(kept.sealed), open(kept.previous?.sealed ?? '')]).toEqual(['three', 'two']);
  expect(previousOf(kept, start + 2 + overlapSeconds - 1)).toBeDefined();
  expect(previousOf(kept, start + 2 + overlapSeconds)).toBeUndefined();
});

test('setting another header deletes expired previous values', () => {
  const headers = withHeader([header('x-key', 'two', 'one')], header('a-key', 'a'), start + 60);

  expect(headers.map(({ name, previous }) => [name, previous])).toEqual([
    ['a-key', undefined],
    ['x-key', undefined],
  ]);
});

test('every method carries the headers, and none replaces one of the gateway', async () => {
  const fixed = [
    header('x-key', 'one'),
    header('accept', 'text/plain'),
    header('authorization', 'f'),
  ];
  const { upstream, seen } = asked(fixed, [200, 200, 204]);
  for (const method of ['POST', 'GET', 'DELETE'] as const)
    await upstream.send({ ...request, method });

  expect(seen()).toEqual(Array.from({ length: 3 }, () => ({ 'x-key': 'one', ...request.headers })));
});

test('a value that the upstream refuses is followed by the previous one, once, which is recorded', async () => {
  const fixed = [header('a-key', 'same'), header('x-key', 'new', 'old')];
  const { upstream, seen, noteRefused } = asked(fixed, [401, 200]);

  const answer = await upstream.send(request);

  expect(answer.status).toBe(200);
  expect(seen().map((sent) => [sent['a-key'], sent['x-key']])).toEqual([
    ['same', 'new'],
    ['same', 'old'],
  ]);
  expect(noteRefused.mock.calls).toEqual([[targetId, fixed, start]]);
});

test.each([
  ['the new value is taken', [200], 1],
  ['both values are refused', [401, 401, 200], 2],
  ['it is refused for another reason', [403, 200], 1],
])('nothing is recorded if %s', async (_, statuses, requests) => {
  const { upstream, seen, noteRefused } = asked([header('x-key', 'new', 'old')], statuses);

  expect((await upstream.send(request)).status).toBe(statuses[requests - 1]);
  expect(seen()).toHaveLength(requests);
  expect(noteRefused).not.toHaveBeenCalled();
});

test('after the overlap a refused value is refused', async () => {
  const { upstream, seen, clock } = asked([header('x-key', 'new', 'old')], [401, 200]);
  clock.advance(60);

  expect((await upstream.send(request)).status).toBe(401);
  expect(seen()).toHaveLength(1);
});

test('a call is answered although the refusal of the new value could not be recorded', async () => {
  const { upstream, noteRefused, onError } = asked([header('x', 'new', 'old')], [401, 200]);
  const error = new Error('disk full');
  noteRefused.mockRejectedValue(error);

  expect((await upstream.send(request)).status).toBe(200);
  expect(onError).toHaveBeenCalledWith(error);
});

test('a header stored with another origin is not sent', async () => {
  const { upstream, seen } = asked([header('x-key', 'one')], [200], 'https://evil.example/mcp');

  await expect(upstream.send(request)).rejects.toMatchObject({
    code: 'upstream_failed',
    details: { detail: 'its fixed headers were entered for another server or origin' },
  });
  expect(seen()).toEqual([]);
});
