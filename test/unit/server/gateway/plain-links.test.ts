import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { linkHeaders, PlainLinks } from '#server/gateway/plain-links';
import { UpstreamError } from '#server/gateway/upstream';
import { stillClock, type StillClock } from '#support/still-clock';
import { fakeUpstream, type FakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';
import { legacyServer, messageOf, modernServer } from '#support/mcp-servers';

const place = 'https://mcp.example.com/';
let clock: StillClock;
let links: PlainLinks;

beforeEach(() => {
  vi.useFakeTimers();
  clock = stillClock();
  links = new PlainLinks(clock);
});

afterEach(async () => {
  await links.close();
  vi.useRealTimers();
});

const methods = ({ sent }: FakeUpstream) =>
  sent.map((request) => (request.method === 'POST' ? messageOf(request).method : request.method));

const legacyLink = { era: 'legacy', protocolVersion: '2025-06-18', sessionId: 'session-1' };

test('a modern upstream is asked once what it is, in the headers and _meta of its era', async () => {
  const upstream = modernServer();

  expect(await links.link({ key: 'key:a srv_1', place, upstream })).toEqual({ era: 'modern' });
  expect(methods(upstream)).toEqual(['server/discover']);
  expect(upstream.sent[0]?.headers).toEqual({
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'server/discover',
  });
  expect(JSON.parse(upstream.sent[0]?.text ?? '')).toMatchObject({
    params: {
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'latchkey-server' },
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    },
  });
});

test.each([false, true])(
  'a legacy upstream gets its whole handshake (events: %s)',
  async (events) => {
    const upstream = legacyServer({ events });

    expect(await links.link({ key: 'key:a srv_1', place, upstream })).toEqual(legacyLink);
    expect(methods(upstream)).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
    ]);
    expect(upstream.sent[2]?.headers).toMatchObject({
      'mcp-protocol-version': '2025-06-18',
      'mcp-session-id': 'session-1',
    });
  },
);

test('a legacy upstream without sessions gives a link without one', async () => {
  const link = await links.link({
    key: 'key:a srv_1',
    place,
    upstream: legacyServer({ withSessions: false }),
  });

  expect(link).toEqual({ ...legacyLink, sessionId: undefined });
  expect(
    linkHeaders({ era: 'legacy', protocolVersion: '2025-06-18', sessionId: undefined }),
  ).toEqual({
    'mcp-protocol-version': '2025-06-18',
  });
});

test.each([400, 404, 405])(
  'an upstream that answers discovery with %i is asked to initialize',
  async (status) => {
    const legacy = legacyServer();
    const upstream = fakeUpstream((request): ScriptedAnswer | Promise<ScriptedAnswer> => {
      if (messageOf(request).method === 'server/discover') return { status, mediaType: '' };
      return legacy
        .send({ ...request, body: Buffer.from(request.text) })
        .then(({ body, ...rest }) => ({ ...rest, text: body }));
    });

    expect(await links.link({ key: 'key:a srv_1', place, upstream })).toEqual(legacyLink);
  },
);

test('requests at once share one handshake, and one principal never uses that of another', async () => {
  const upstream = legacyServer();
  const [one, two] = await Promise.all([
    links.link({ key: 'key:a srv_1', place, upstream }),
    links.link({ key: 'key:a srv_1', place, upstream }),
  ]);
  const other = await links.link({ key: 'key:b srv_1', place, upstream });

  expect(one).toBe(two);
  expect(other).toMatchObject({ sessionId: 'session-2' });
});

test('a link that nobody used for five minutes ends, its session upstream too', async () => {
  const upstream = legacyServer();
  await links.link({ key: 'key:a srv_1', place, upstream });
  clock.advance(300);
  await vi.advanceTimersByTimeAsync(30_000);

  expect(methods(upstream)).not.toContain('DELETE');

  clock.advance(1);
  await vi.advanceTimersByTimeAsync(30_000);

  expect(upstream.sent.at(-1)).toMatchObject({
    method: 'DELETE',
    headers: { 'mcp-session-id': 'session-1' },
  });
  expect(await links.link({ key: 'key:a srv_1', place, upstream })).toMatchObject({
    sessionId: 'session-2',
  });
});

test('a link is forgotten only while it is the one that was found dead', async () => {
  const upstream = legacyServer();
  const dead = await links.link({ key: 'key:a srv_1', place, upstream });
  await links.forget('key:a srv_1', dead);
  const renewed = await links.link({ key: 'key:a srv_1', place, upstream });
  await links.forget('key:a srv_1', dead);

  expect(renewed).toMatchObject({ sessionId: 'session-2' });
  expect(await links.link({ key: 'key:a srv_1', place, upstream })).toBe(renewed);
});

test('closing ends every session, past one that cannot be ended', async () => {
  const upstream = legacyServer();
  await links.link({ key: 'key:a srv_1', place, upstream });
  await links.link({ key: 'key:b srv_1', place, upstream });
  const untold = fakeUpstream((request) => {
    if (request.method === 'DELETE') throw new UpstreamError('unreachable', 'DELETE');
    return { text: '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}' };
  });
  await links.link({ key: 'key:c srv_1', place, upstream: untold });
  await links.close();

  expect(methods(upstream).filter((method) => method === 'DELETE')).toHaveLength(2);
});

test('ids of requests through links are each used once', () => {
  expect([links.nextId(), links.nextId(), links.nextId()]).toEqual(['1', '2', '3']);
});
