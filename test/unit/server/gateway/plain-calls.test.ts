import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { PlainLinks, forwardPlain } from '#server/gateway/plain-calls';
import { GatewayRefusal } from '#server/gateway/gateway-refusal';
import { filteredList } from '#server/gateway/tool-list';
import { type Upstream, UpstreamError } from '#server/gateway/upstream';
import {
  type FakeUpstream,
  type ScriptedAnswer,
  brokenOff,
  eventStream,
  fakeUpstream,
} from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { replied } from '#support/replied';
import { discoverAnswer, legacyServer, messageOf, modernServer } from '#support/mcp-servers';
import { scannedMessage } from '#support/scanned-message';
import { rightsTo } from '#support/some-admission';
import { type StillClock, stillClock } from '#support/still-clock';

describe('a plain request', () => {
  let links: PlainLinks;
  const place = 'https://mcp.example.com/';
  const signal = new AbortController().signal;

  beforeEach(() => {
    links = new PlainLinks(stillClock());
  });

  afterEach(() => links.close());

  async function ask(
    upstream: Upstream,
    message: string,
    { key = 'key:a srv_1', hiddenTools = [] as string[] } = {},
  ) {
    const request = { ...scannedMessage(message), upstream, key, place, signal, trace: {} };
    const { answer, accepts, restore, isAlways200 } = await forwardPlain(request, links);
    const filters = [filteredList('tools/list', rightsTo({ hiddenTools })), restore].filter(
      (filter) => filter !== undefined,
    );
    const { body: text, ...head } = answer;
    return replied({ ...head, text }, { accepts, filters, isAlways200 });
  }

  const list = '{"jsonrpc":"2.0","id":"mine","method":"tools/list"}';

  describe('a plain request is answered 200 as JSON under its own id', () => {
    test.each([
      ['by a modern upstream', modernServer],
      ['by a legacy one', legacyServer],
      ['by a legacy one without sessions', () => legacyServer({ withSessions: false })],
      ['by a legacy one that answers in events', () => legacyServer({ events: true })],
    ])('%s', async (_, server) => {
      const answer = await ask(server(), list);

      expect(answer).toMatchObject({
        status: 200,
        headers: { 'Content-Type': 'application/json' },
      });
      expect(JSON.parse(await bodyText(answer))).toMatchObject({
        jsonrpc: '2.0',
        id: 'mine',
        result: {},
      });
    });
  });

  test('for a modern upstream, _meta is added to the caller’s bytes', async () => {
    const upstream = modernServer();
    await ask(
      upstream,
      '{"jsonrpc":"2.0","id":1.50,"method":"tools/call","params":{"name":"é" , "n":1e400}}',
    );
    const { text, headers } = upstream.sent[1] ?? {};

    expect(text).toContain('"id":1.50,');
    expect(text).toContain(',"name":"é" , "n":1e400}}'.slice(1));
    expect(text).toContain('"io.modelcontextprotocol/protocolVersion":"2026-07-28"');
    expect(headers).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': '=?base64?w6k=?=',
    });
  });

  test('at a legacy upstream, two callers with the same id get different ids', async () => {
    const upstream = legacyServer();
    const answers = await Promise.all([ask(upstream, list), ask(upstream, list)]);
    const ids = upstream.sent
      .map(messageOf)
      .filter(({ method }) => method === 'tools/list')
      .map(({ id }) => id);

    expect(new Set(ids).size).toBe(2);
    expect(ids).not.toContain('mine');
    expect((await Promise.all(answers.map(bodyText))).map((body) => JSON.parse(body).id)).toEqual([
      'mine',
      'mine',
    ]);
  });

  test('a session that the upstream forgot is opened again, and the request sent once more', async () => {
    const upstream = legacyServer();
    await ask(upstream, list);
    upstream.forgetSessions();
    const answer = await ask(upstream, list);

    expect(answer.status).toBe(200);
    expect(upstream.sent.at(-1)?.headers).toMatchObject({ 'mcp-session-id': 'session-2' });
  });

  test('a request that a new session does not accept either is refused, and not sent again', async () => {
    const forgetful = legacyServer();
    const upstream = fakeUpstream(async (request): Promise<ScriptedAnswer> => {
      if (messageOf(request).method === 'tools/list') return { status: 404, mediaType: '' };
      const { body, ...rest } = await forgetful.send({
        ...request,
        body: Buffer.from(request.text),
      });
      return { ...rest, text: body };
    });

    await expect(ask(upstream, list)).rejects.toMatchObject({ code: 'upstream_not_found' });
    expect(
      upstream.sent.map(messageOf).filter(({ method }) => method === 'tools/list'),
    ).toHaveLength(2);
  });

  test('a plain notification is 202', async () => {
    const message = '{"jsonrpc":"2.0","method":"notifications/progress"}';

    expect(await ask(legacyServer(), message)).toEqual({ status: 202, headers: {} });
  });

  test('a JSON-RPC error is answered with 200, whatever status the upstream sent', async () => {
    const error = '{"jsonrpc":"2.0","id":"mine","error":{"code":-32602,"message":"no"}}';
    const upstream = fakeUpstream((request) =>
      messageOf(request).method === 'server/discover'
        ? { text: discoverAnswer }
        : { status: 400, text: error },
    );
    const answer = await ask(upstream, list);

    expect(answer.status).toBe(200);
    expect(await bodyText(answer)).toBe(error);
  });

  test.each([
    ['is no response', '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'],
    ['is no JSON-RPC', '{"result":{}}'],
    ['names its id twice', '{"jsonrpc":"2.0","id":1,"id":1,"result":{}}'],
  ])('an answer of a legacy upstream that %s is refused', async (_, text) => {
    const legacy = legacyServer();
    const upstream = fakeUpstream(async (request): Promise<ScriptedAnswer> => {
      if (messageOf(request).method === 'tools/list') return { text };
      const { body, ...rest } = await legacy.send({ ...request, body: Buffer.from(request.text) });
      return { ...rest, text: body };
    });

    await expect(ask(upstream, list)).rejects.toMatchObject({ code: 'upstream_unreadable' });
  });

  test.each([
    ['1999-01-01', 'upstream_failed'],
    ['x'.repeat(1 << 20), 'upstream_too_large'],
  ])(
    '107: an upstream that names an unknown revision is given up, and none is kept',
    async (protocolVersion, code) => {
      const upstream = fakeUpstream((request): ScriptedAnswer => {
        const { id, method } = messageOf(request);
        if (method === 'server/discover') return { status: 404 };
        return { text: JSON.stringify({ jsonrpc: '2.0', id, result: { protocolVersion } }) };
      });

      await expect(ask(upstream, list)).rejects.toMatchObject({ code });
      expect(links.keeps('key:a srv_1')).toBe(false);
    },
  );

  test.each([
    ['modern', 'server/discover'],
    ['legacy', 'initialize'],
  ])('hidden tools are left out of the list of a %s upstream', async (_, hello) => {
    const tools = [{ name: 'read' }, { name: 'drop' }];
    const upstream = fakeUpstream((request): ScriptedAnswer => {
      if (request.method === 'DELETE') return { status: 204 };
      const { id, method } = messageOf(request);
      if (method === 'tools/list')
        return { text: JSON.stringify({ jsonrpc: '2.0', id, result: { tools } }) };
      if (method !== hello) return { status: method === 'server/discover' ? 404 : 202 };
      if (method === 'server/discover') return { text: discoverAnswer };
      return { text: '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}' };
    });
    const answer = await ask(upstream, list, { hiddenTools: ['drop'] });

    expect(JSON.parse(await bodyText(answer))).toEqual({
      jsonrpc: '2.0',
      id: 'mine',
      result: { tools: [{ name: 'read' }] },
    });
  });
});

describe('a handshake for plain requests', () => {
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

  test('a modern upstream is discovered once, with the headers and _meta of its era', async () => {
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

  test.each([
    ['breaks off', 'initialize', { text: brokenOff('{') }],
    ['names no revision', 'initialize', { text: '{"jsonrpc":"2.0","id":1,"result":{}}' }],
    ['is refused', 'initialize', { status: 500 }],
    ['cannot be completed', 'notifications/initialized', undefined],
  ] as const)(
    'a handshake that %s leaves no session upstream',
    async (_what, failing, answer: ScriptedAnswer | undefined) => {
      const upstream = fakeUpstream((request): ScriptedAnswer => {
        if (request.method === 'DELETE') return { status: 204 };
        const { method } = messageOf(request);
        if (method === 'server/discover') return { status: 404 };
        if (method === failing && !answer) throw new UpstreamError('unreachable', 'refused');
        const text = '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}';
        return { text, ...(method === failing && answer), sessionId: 'session-1' };
      });

      await expect(links.link({ key: 'key:a srv_1', place, upstream })).rejects.toThrow(
        GatewayRefusal,
      );

      expect(upstream.sent.at(-1)).toMatchObject({
        method: 'DELETE',
        headers: { 'mcp-session-id': 'session-1' },
      });
    },
  );

  test('concurrent requests share one handshake, and no principal uses that of another', async () => {
    const upstream = legacyServer();
    const [one, two] = await Promise.all([
      links.link({ key: 'key:a srv_1', place, upstream }),
      links.link({ key: 'key:a srv_1', place, upstream }),
    ]);
    const other = await links.link({ key: 'key:b srv_1', place, upstream });

    expect(one).toBe(two);
    expect(other).toMatchObject({ sessionId: 'session-2' });
  });

  test('a link that is unused for five minutes ends, with its session at the upstream', async () => {
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

  test('a link is forgotten only if it is still the one that was found dead', async () => {
    const upstream = legacyServer();
    const dead = await links.link({ key: 'key:a srv_1', place, upstream });
    links.forget('key:a srv_1', dead);
    const renewed = await links.link({ key: 'key:a srv_1', place, upstream });
    links.forget('key:a srv_1', dead);

    expect(renewed).toMatchObject({ sessionId: 'session-2' });
    expect(await links.link({ key: 'key:a srv_1', place, upstream })).toBe(renewed);
  });

  test('closing ends every session, even if one cannot be ended', async () => {
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

  test('each request id on a link is used once', () => {
    expect([links.nextId(), links.nextId(), links.nextId()]).toEqual(['1', '2', '3']);
  });
});

describe('a handshake that fails', () => {
  const place = 'https://mcp.example.com/';
  let links: PlainLinks;

  beforeEach(() => {
    links = new PlainLinks(stillClock());
  });

  afterEach(async () => {
    await links.close();
    vi.restoreAllMocks();
  });

  describe('a handshake fails as an upstream error when', () => {
    const refusing = (answer: ScriptedAnswer) => (request: { text: string }) =>
      messageOf(request).method === 'server/discover' ? { status: 404 } : answer;
    test.each<[string, string, (request: { text: string }) => ScriptedAnswer]>([
      ['it refuses the gateway', 'upstream_refused_credentials', () => ({ status: 401 })],
      ['it is broken', 'upstream_server_error', () => ({ status: 500 })],
      ['it is busy', 'upstream_busy', () => ({ status: 503 })],
      ['it refused the MCP handshake', 'upstream_failed', refusing({ status: 400 })],
      [
        'it names no version',
        'upstream_failed',
        refusing({ text: '{"jsonrpc":"2.0","id":1,"result":{}}' }),
      ],
      [
        'it answers an error',
        'upstream_failed',
        refusing({ text: '{"jsonrpc":"2.0","id":1,"error":{}}' }),
      ],
      ['its answer is no JSON', 'upstream_not_json', refusing({ text: 'hello' })],
      [
        'its stream ends too soon',
        'upstream_not_json',
        refusing({ mediaType: 'text/event-stream', text: eventStream() }),
      ],
      ['its answer breaks off', 'upstream_broke_off', refusing({ text: brokenOff('{') })],
    ])('%s', async (_, code, script) => {
      await expect(
        links.link({ key: 'key:a srv_1', place, upstream: fakeUpstream(script) }),
      ).rejects.toMatchObject({
        name: 'GatewayRefusal',
        code,
      });
    });

    test('it does not answer in time', async () => {
      const late = AbortSignal.abort(new DOMException('late', 'TimeoutError'));
      vi.spyOn(AbortSignal, 'timeout').mockReturnValue(late);
      const upstream = fakeUpstream(({ signal }) => Promise.reject(signal.reason));

      await expect(links.link({ key: 'key:a srv_1', place, upstream })).rejects.toMatchObject({
        name: 'GatewayRefusal',
        code: 'upstream_timeout',
        details: { detail: 'it did not answer in time' },
      });
    });
  });

  test('a failed handshake is repeated at the next request', async () => {
    let up = false;
    const upstream = fakeUpstream(() => {
      if (!up) throw new UpstreamError('unreachable', 'POST');
      return { text: discoverAnswer };
    });

    await expect(links.link({ key: 'key:a srv_1', place, upstream })).rejects.toMatchObject({
      code: 'upstream_unreachable',
    });

    up = true;

    expect(await links.link({ key: 'key:a srv_1', place, upstream })).toEqual({ era: 'modern' });
  });
});
