import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import type { AdmissionStore } from '#server/db/admissions';
import { EraAdapters } from '#server/gateway/era-adapters';
import { Gateway } from '#server/gateway/gateway';
import type { GatewayAnswer, GatewayRequest } from '#server/gateway/request';
import type { Upstream } from '#server/gateway/upstream';
import type { Target } from '#server/model/endpoints';
import { allScopes, type Scope } from '#server/model/scopes';
import type { AccessRules, ToolCaller } from '#server/model/tool-rights';
import { mintSecret } from '#server/secrets/secrets';
import { fakeMac } from '#support/fake-mac';
import { fakeUpstream, type ScriptedAnswer, type SentRequest } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { acceptsBoth, initialize, modern } from '#support/mcp-call';
import { someServer } from '#support/some-admission';
import { stillClock } from '#support/still-clock';

const sales = new Set(['sales']);
const support = new Set(['support']);
const none = new Map<string, Set<string>>();
const rulesOf = (tools: Readonly<Record<string, ReadonlySet<string>>>): AccessRules => ({
  others: {},
  named: { tool: new Map(Object.entries(tools)), prompt: none, resource: none, template: none },
});
const dana: ToolCaller = { groups: sales, selections: [] };

describe('a caller who listens is told within a second that a list changed', () => {
  const key = mintSecret('mcp_');
  let target: Partial<Target>;
  let caller: ToolCaller;
  let scopes: readonly Scope[];
  let upstream: Upstream;
  let gateway: Gateway;
  let gone: AbortController;

  beforeEach(() => {
    vi.useFakeTimers();
    target = { rules: rulesOf({ a: sales, b: support }) };
    caller = dana;
    scopes = [...allScopes];
    gone = new AbortController();
    const clock = stillClock();
    const byKey: AdmissionStore['byKey'] = () =>
      Promise.resolve({
        endpoint: someServer({ target }),
        toolCaller: caller,
        keyId: 'key_a',
        scopes,
      });
    gateway = new Gateway({
      base: 'https://latchkey.example.com',
      clock,
      used: () => undefined,
      refused: () => undefined,
      note: () => undefined,
      admissions: {
        byKey,
        byClient: () => Promise.resolve(undefined),
        byPerson: () => Promise.resolve(undefined),
        byMember: () => Promise.resolve(undefined),
        changeToken: () => 'once',
      },
      tokens: {
        issue: () => expect.fail('not here'),
        verify: () => Promise.resolve({ outcome: 'invalid', reason: 'not here' }),
      },
      endpointUrl: (path) => path,
      mac: fakeMac,
      upstreamOf: () => upstream,
      pinned: (answer) => Promise.resolve(answer),
      left: () => undefined,
      eras: new EraAdapters(clock),
      presentationOf: () => Promise.resolve(undefined),
      isAllowedOrigin: () => true,
    });
  });

  afterEach(async () => {
    gone.abort();
    await gateway.close();
    vi.useRealTimers();
  });

  function ask(but: Partial<GatewayRequest>, body = ''): Promise<GatewayAnswer> {
    return gateway.handle({
      id: 'request-1',
      method: 'POST',
      organization: 'acme',
      server: 'sales',
      rawHeaders: ['X-API-Key', key],
      readBody: () => Buffer.from(body),
      gone: gone.signal,
      ...but,
      headers: { 'content-type': 'application/json', accept: acceptsBoth, ...but.headers },
    });
  }

  /** The text that has arrived of a stream so far, updated as more arrives. */
  function follow({ body }: GatewayAnswer) {
    const read = { text: '', isOver: false };
    void (async () => {
      if (typeof body !== 'object') return;
      for await (const chunk of body instanceof Uint8Array ? [body] : body)
        read.text += Buffer.from(chunk).toString();
      read.isOver = true;
    })().catch(() => undefined);
    return read;
  }

  const toldIn = ({ text }: { text: string }) =>
    [...text.matchAll(/notifications\/(\w+)\/list_changed/g)].map(([, list]) => list);

  /** A body that sends `first`, and then nothing until its request ends. */
  async function* silence({ signal }: SentRequest, first = ''): AsyncGenerator<Uint8Array> {
    if (first !== '') yield Buffer.from(first);
    await new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  }

  /** A server with sessions, whose stream says nothing unless `get` has another answer. */
  function sessionServer(
    capabilities: object,
    get: (request: SentRequest) => ScriptedAnswer = (request) => ({
      mediaType: 'text/event-stream',
      text: silence(request),
    }),
  ): Upstream {
    return fakeUpstream((request) => {
      if (request.method === 'GET') return get(request);
      if (request.method === 'DELETE') return { status: 204 };
      const { id, method } = JSON.parse(request.text);
      if (id === undefined) return { status: 202 };
      const result =
        method === 'initialize' ? { protocolVersion: '2025-06-18', capabilities } : { of: method };
      return { text: JSON.stringify({ jsonrpc: '2.0', id, result }), sessionId: 'upstream-1' };
    });
  }

  async function session() {
    const opened = await ask({}, initialize());
    const id = opened.headers['Mcp-Session-Id'] ?? '';
    const headers = { 'mcp-session-id': id, 'mcp-protocol-version': '2025-06-18' };
    return { text: await bodyText(opened), listen: () => ask({ method: 'GET', headers }) };
  }

  const changing = { tools: { listChanged: true }, prompts: {} };

  test.each([
    ['the rules', () => (target = { rules: rulesOf({ a: sales, b: sales }) })],
    ['the groups of the person', () => (caller = { groups: support, selections: [] })],
    [
      'the selection of the credential',
      () => (caller = { groups: sales, selections: [{ type: 'read-only' }] }),
    ],
    ['what is hidden', () => (target = { ...target, hiddenTools: ['a'] })],
    [
      'what is accepted',
      () => {
        const withheld = { tool: new Set(['a']) };
        target = { ...target, offered: { withheld, open: {}, readOnly: new Set() } };
      },
    ],
  ])('in a session, by a change of %s', async (_, change) => {
    upstream = sessionServer(changing);
    const { listen } = await session();
    const stream = follow(await listen());
    await vi.advanceTimersByTimeAsync(5000);

    expect(toldIn(stream)).toEqual([]);

    change();
    await vi.advanceTimersByTimeAsync(1000);

    expect(toldIn(stream)).toEqual(['tools']);

    await vi.advanceTimersByTimeAsync(5000);

    expect(toldIn(stream)).toEqual(['tools']);
  });

  test('not in a session, by a change for others', async () => {
    upstream = sessionServer(changing);
    const { listen } = await session();
    const stream = follow(await listen());
    target = { rules: rulesOf({ a: sales, b: support, c: support }) };
    await vi.advanceTimersByTimeAsync(1000);
    const before = toldIn(stream);
    target = { rules: rulesOf({ a: sales, b: support, c: new Set(['legal']) }) };
    await vi.advanceTimersByTimeAsync(1000);

    // By the first change, the caller lost `c`, which everyone had.
    expect(before).toEqual(['tools']);
    expect(toldIn(stream)).toEqual(['tools']);
  });

  test('in a session whose server announced nothing, once there are rules', async () => {
    upstream = sessionServer({ tools: {} });
    const { text, listen } = await session();
    const stream = follow(await listen());
    caller = { groups: support, selections: [] };
    await vi.advanceTimersByTimeAsync(1000);

    expect(text).toContain('"tools":{"listChanged":true}');
    expect(toldIn(stream)).toEqual(['tools']);
  });

  test('not in a session to which nothing was announced', async () => {
    target = {};
    upstream = sessionServer({ tools: {} });
    const { text, listen } = await session();
    const stream = follow(await listen());
    target = { rules: rulesOf({ a: support }) };
    await vi.advanceTimersByTimeAsync(1000);

    expect(text).not.toContain('listChanged');
    expect(toldIn(stream)).toEqual([]);
  });

  test('in a session, of what changed before it listened', async () => {
    upstream = sessionServer(changing);
    const { listen } = await session();
    caller = { groups: support, selections: [] };
    const stream = follow(await listen());
    await vi.advanceTimersByTimeAsync(0);

    expect(toldIn(stream)).toEqual(['tools']);
  });

  test.each<[string, ScriptedAnswer]>([
    ['has no stream', { status: 405 }],
    ['sends JSON instead', { text: '{"jsonrpc":"2.0","id":1,"result":{}}' }],
  ])(
    'in a session whose server %s, if there are rules; without, there is none',
    async (_, reply) => {
      upstream = sessionServer(changing, () => reply);
      const { listen } = await session();
      const answer = await listen();
      const stream = follow(answer);
      caller = { groups: support, selections: [] };
      await vi.advanceTimersByTimeAsync(1000);

      expect(answer.status).toBe(200);
      expect(toldIn(stream)).toEqual(['tools']);
      expect(stream.isOver).toBe(false);

      target = {};
      const free = await session();

      expect((await free.listen()).status).toBe(405);
    },
  );

  test('not without the scope of the list', async () => {
    scopes = ['mcp:resources:read'];
    upstream = sessionServer(changing);
    const { listen } = await session();
    const stream = follow(await listen());
    caller = { groups: support, selections: [] };
    await vi.advanceTimersByTimeAsync(1000);

    expect(toldIn(stream)).toEqual([]);
  });

  const subscribe = (notifications: object) => {
    const { body, headers } = modern('subscriptions/listen', { notifications }, 9);
    return ask({ headers }, body);
  };

  /** A modern server whose answer to a subscription is `listen`. */
  function modernServer(listen: (request: SentRequest, id: unknown) => ScriptedAnswer): Upstream {
    return fakeUpstream((request) => {
      const { id, method } = JSON.parse(request.text);
      if (method === 'subscriptions/listen') return listen(request, id);
      const capabilities = { tools: {}, prompts: {} };
      const result = {
        supportedVersions: ['2026-07-28'],
        capabilities,
        ttlMs: 9,
        cacheScope: 'public',
      };
      return { text: JSON.stringify({ jsonrpc: '2.0', id, result }) };
    });
  }

  const acknowledged = (notifications: object | undefined, id: unknown) =>
    `data: ${JSON.stringify({
      jsonrpc: '2.0',
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications, _meta: { 'io.modelcontextprotocol/subscriptionId': id } },
    })}\n\n`;
  const accepting =
    (notifications: object | undefined, isOver = false) =>
    (request: SentRequest, id: unknown): ScriptedAnswer => {
      const complete = `data: {"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"resultType":"complete"}}\n\n`;
      const first = acknowledged(notifications, id);
      return {
        mediaType: 'text/event-stream',
        text: isOver ? first + complete : silence(request, first),
      };
    };

  test.each<[string, (request: SentRequest, id: unknown) => ScriptedAnswer]>([
    ['accepts the list', accepting({ toolsListChanged: true })],
    ['accepts nothing', accepting({})],
    ['does not say what it accepts', accepting(undefined)],
    ['accepts nothing and ends', accepting({}, true)],
    [
      'knows no subscriptions',
      (_, id) => ({
        status: 404,
        text: `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":{"code":-32601,"message":"no"}}`,
      }),
    ],
  ])('by a subscription whose server %s', async (_, listen) => {
    upstream = modernServer(listen);
    const stream = follow(await subscribe({ toolsListChanged: true }));
    await vi.advanceTimersByTimeAsync(1000);
    const first = /data: (.*)/.exec(stream.text)?.[1] ?? '';
    caller = { groups: support, selections: [] };
    await vi.advanceTimersByTimeAsync(1000);

    expect(JSON.parse(first)).toMatchObject({
      method: 'notifications/subscriptions/acknowledged',
      params: {
        notifications: { toolsListChanged: true },
        _meta: { 'io.modelcontextprotocol/subscriptionId': 9 },
      },
    });
    expect(stream.text).toContain(
      'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":9}}}\n\n',
    );
    expect(toldIn(stream)).toEqual(['tools']);
    expect(stream.isOver).toBe(false);

    gone.abort();
    await vi.advanceTimersByTimeAsync(1000);
  });

  test('not by a subscription to another list', async () => {
    upstream = modernServer(accepting({ promptsListChanged: true }));
    const stream = follow(await subscribe({ promptsListChanged: true }));
    caller = { groups: support, selections: [] };
    await vi.advanceTimersByTimeAsync(1000);

    expect(toldIn(stream)).toEqual([]);
  });

  test('without rules, a subscription is what the upstream makes of it', async () => {
    target = {};
    upstream = modernServer(accepting({}, true));
    const stream = follow(await subscribe({ toolsListChanged: true }));
    await vi.advanceTimersByTimeAsync(1000);

    expect(stream.text).toBe(
      `${acknowledged({}, 9)}data: {"jsonrpc":"2.0","id":9,"result":{"resultType":"complete"}}\n\n`,
    );
    expect(stream.isOver).toBe(true);
  });

  test('a subscription that its server accepted ends with the server', async () => {
    upstream = modernServer(accepting({ promptsListChanged: true }, true));
    const stream = follow(await subscribe({ toolsListChanged: true, promptsListChanged: true }));
    await vi.advanceTimersByTimeAsync(1000);

    expect(stream.text).toContain('"toolsListChanged":true');
    expect(stream.text).toContain('"resultType":"complete"');
    expect(stream.isOver).toBe(true);
  });

  test('a server that is asked what it is announces its lists, for this caller alone', async () => {
    upstream = modernServer(accepting({}));
    const { body, headers } = modern('server/discover');
    const text = await bodyText(await ask({ headers }, body));

    expect(text).toContain(
      '"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true}}',
    );
    expect(text).toContain('"cacheScope":"private"');
  });

  test('a resource that is closed while its changes are subscribed to says nothing more', async () => {
    let say: (uri: string) => void = () => undefined;
    upstream = modernServer((request, id) => ({
      mediaType: 'text/event-stream',
      text: (async function* () {
        yield Buffer.from(acknowledged({ resourceSubscriptions: ['file:///a'] }, id));
        for (;;) {
          const { promise, resolve } = Promise.withResolvers<string>();
          say = resolve;
          request.signal.addEventListener('abort', () => resolve(''));
          const uri = await promise;
          if (uri === '') return;
          yield Buffer.from(
            `data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"${uri}"}}\n\n`,
          );
        }
      })(),
    }));
    const stream = follow(await subscribe({ resourceSubscriptions: ['file:///a'] }));
    await vi.advanceTimersByTimeAsync(0);
    say('file:///a');
    await vi.advanceTimersByTimeAsync(1000);
    const { named } = rulesOf({});
    target = {
      rules: { others: {}, named: { ...named, resource: new Map([['file:///a', support]]) } },
    };
    await vi.advanceTimersByTimeAsync(1000);
    say('file:///a');
    await vi.advanceTimersByTimeAsync(1000);
    say('file:///b');
    await vi.advanceTimersByTimeAsync(1000);

    expect([...stream.text.matchAll(/"uri":"(.*?)"/g)].map(([, uri]) => uri)).toEqual([
      'file:///a',
      'file:///b',
    ]);
  });
});
