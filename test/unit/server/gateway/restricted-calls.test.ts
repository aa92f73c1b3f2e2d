import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import type { AdmissionStore } from '#server/db/admissions';
import { EraAdapters } from '#server/gateway/era-adapters';
import { Gateway } from '#server/gateway/gateway';
import type { GatewayPorts } from '#server/gateway/gateway-parts';
import type { GatewayAnswer, GatewayRequest } from '#server/gateway/request';
import { isListMethod, listIn } from '#server/gateway/tool-list';
import { type Upstream, UpstreamError } from '#server/gateway/upstream';
import { wholeBody } from '#server/gateway/answers';
import type { EndedCall } from '#server/model/calls';
import type { Target } from '#server/model/endpoints';
import { allScopes } from '#server/model/scopes';
import type { AccessRules, Offered, PrimitiveKind, ToolCaller } from '#server/model/tool-rights';
import { mintSecret } from '#server/secrets/secrets';
import { fakeMac } from '#support/fake-mac';
import { eventStream, fakeUpstream, type ScriptedAnswer } from '#support/fake-upstream';
import { bodyText } from '#support/gateway-answer';
import { initialize, modern, rpc } from '#support/mcp-call';
import { discoverAnswer } from '#support/mcp-servers';
import { ofNoPerson, someServer } from '#support/some-admission';
import { stillClock } from '#support/still-clock';

const base = 'https://latchkey.example.com';
const key = mintSecret('mcp_');
const sales = new Set(['sales']);
const restricted: AccessRules = {
  others: {},
  named: {
    tool: new Map([['drop', sales]]),
    prompt: new Map([['drop', sales]]),
    resource: new Map([['file:///drop', sales]]),
    template: new Map([['file:///drop/{+x}', sales]]),
  },
};
const nothing: Offered = { withheld: {}, open: {}, readOnly: new Set() };

let target: Partial<Target>;
let caller: ToolCaller;
let gateway: Gateway;
let upstream: Upstream;
let notes: boolean;
const ended = vi.fn<(call: EndedCall) => void>();
const refused = vi.fn<GatewayPorts['refused']>();
const byKey = vi.fn<AdmissionStore['byKey']>();

const kinds: Readonly<Record<string, PrimitiveKind>> = {
  'tools/list': 'tool',
  'prompts/list': 'prompt',
  'resources/templates/list': 'template',
};

/** Notes the names on a list, as the comparison with accepted definitions does. */
const pinned: GatewayPorts['pinned'] = async (answer, _, { method }) => {
  const body = await wholeBody(answer.body);
  const list = isListMethod(method) ? listIn(body, method) : undefined;
  const kind = list && kinds[method];
  if (list && kind && notes) {
    const { offered = nothing } = target;
    const known = offered.open[kind] ?? [];
    const names = new Set([...known, ...list.entries.map(({ name }) => name)]);
    target = { ...target, offered: { ...offered, open: { ...offered.open, [kind]: names } } };
  }
  return { ...answer, body };
};

beforeEach(() => {
  target = { rules: restricted };
  caller = { groups: new Set(['support']), selections: [] };
  notes = true;
  upstream = server();
  const clock = stillClock();
  for (const spy of [ended, refused, byKey]) spy.mockReset();
  byKey.mockImplementation(() =>
    Promise.resolve({
      endpoint: someServer({ target }),
      toolCaller: caller,
      keyId: 'key_a',
      scopes: [...allScopes],
    }),
  );
  gateway = new Gateway({
    base,
    clock,
    used: () => undefined,
    refused,
    note: () => undefined,
    ended,
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
    endpointUrl: (serverPath) => `${base}/mcp/${serverPath}`,
    mac: fakeMac,
    upstreamOf: () => upstream,
    pinned,
    left: () => undefined,
    eras: new EraAdapters(clock),
    presentationOf: () => Promise.resolve(undefined),
    isAllowedOrigin: () => true,
  });
});

afterEach(() => gateway.close());

interface Asked {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** A modern server with two tools, on two pages, two prompts and a template. `answers` replace its own, as results or errors. */
function server(answers: Readonly<Record<string, (asked: Asked) => object | ScriptedAnswer>> = {}) {
  const asked: string[] = [];
  const fake = fakeUpstream((request) => {
    const message: Asked = JSON.parse(request.text);
    const { id, method = '', params } = message;
    const answer = (rest: object) => ({ text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }) });
    if (method === 'server/discover') return { text: discoverAnswer };
    asked.push(method);
    const given = answers[method]?.(message);
    if (given) return 'text' in given || 'status' in given ? given : answer(given);
    switch (method) {
      case 'tools/list':
        return answer({
          result:
            params?.['cursor'] === ''
              ? { tools: [{ name: 'keep' }] }
              : { tools: [{ name: 'drop' }], nextCursor: '' },
        });
      case 'prompts/list':
        return answer({ result: { prompts: [{ name: 'drop' }, { name: 'keep' }] } });
      case 'resources/templates/list':
        return answer({ result: { resourceTemplates: [{ uriTemplate: 'file:///keep/{x}' }] } });
      default:
        return answer({ result: { of: method } });
    }
  });
  return Object.assign(fake, { asked });
}

function post(
  body: string,
  headers: Record<string, string> = {},
  secret = key,
): Promise<GatewayAnswer> {
  const request: GatewayRequest = {
    id: 'request-1',
    method: 'POST',
    organization: 'acme',
    server: 'sales',
    headers: { 'content-type': 'application/json', ...headers },
    rawHeaders: ['X-API-Key', secret],
    readBody: () => Buffer.from(body),
    gone: new AbortController().signal,
  };
  return gateway.handle(request);
}

const plainly = (method: string, params: object) => post(rpc(method, params, 7));
const modernly = (method: string, params: Record<string, unknown>) => {
  const { body, headers } = modern(method, params, 7);
  return post(body, headers);
};
const eras = [
  ['plainly', plainly],
  ['in the modern era', modernly],
] as const;

/** All that a caller sees of an answer, with every occurrence of the name replaced. */
async function seen(answer: GatewayAnswer, name: string) {
  const text = (await bodyText(answer)).replaceAll(name, 'NAME');
  return { status: answer.status, headers: answer.headers, text };
}

const refusedCodes = () => refused.mock.calls.map(([{ code }]) => code);

describe.each(eras)('asked %s', (_, ask) => {
  test('what is closed, hidden, withheld, unknown or never listed gets one answer', async () => {
    const tool = new Set(['drop', 'keep', 'hide', 'new']);
    target = {
      rules: restricted,
      hiddenTools: ['hide'],
      offered: { withheld: { tool: new Set(['new']) }, open: { tool }, readOnly: new Set() },
    };
    const names = ['drop', 'hide', 'new', 'other', 'Drop', 'x'.repeat(300)];
    const answers = [];
    for (const name of names) answers.push(await seen(await ask('tools/call', { name }), name));

    expect(new Set(answers.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(answers[0]).toMatchObject({
      status: 200,
      text: '{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"unknown tool: NAME"}}',
    });
    expect(new Set(ended.mock.calls.map(([{ end }]) => end))).toEqual(new Set(['refused']));
    expect(refusedCodes()).toEqual([
      'closed_tool',
      'hidden_tool',
      'withheld_tool',
      'unknown_tool',
      'unknown_tool',
      'unknown_tool',
    ]);
  });

  test('prompts get one answer, and so do their completions', async () => {
    const prompt = new Set(['drop', 'keep', 'new']);
    const offered = { ...nothing, withheld: { prompt: new Set(['new']) }, open: { prompt } };
    target = { rules: restricted, offered };
    const completion = (name: string) => ({
      ref: { type: 'ref/prompt', name },
      argument: { name: 'a', value: '' },
    });
    const answers = [];
    for (const name of ['drop', 'new', 'other']) {
      answers.push(await seen(await ask('prompts/get', { name }), name));
      answers.push(await seen(await ask('completion/complete', completion(name)), name));
    }

    expect(new Set(answers.map((one) => JSON.stringify(one))).size).toBe(1);
    expect(answers[0]?.text).toContain('"code":-32602,"message":"unknown prompt: NAME"');
    expect(refusedCodes()).toEqual([
      'closed_prompt',
      'closed_prompt',
      'closed_prompt',
      'closed_prompt',
      'unknown_prompt',
      'unknown_prompt',
    ]);
  });

  test.each([
    ['JSON', (error: object) => ({ error })],
    [
      'JSON with HTTP 400',
      (error: object, id: unknown) => ({
        status: 400,
        text: JSON.stringify({ jsonrpc: '2.0', id, error }),
      }),
    ],
    [
      'an event',
      (error: object, id: unknown) => ({
        mediaType: 'text/event-stream',
        text: `: hello\n\n${eventStream(JSON.stringify({ jsonrpc: '2.0', id, error }))}`,
      }),
    ],
    [
      'a whole event',
      (error: object, id: unknown) => ({
        mediaType: 'text/event-stream',
        text: Buffer.from(eventStream(JSON.stringify({ jsonrpc: '2.0', id, error }))),
      }),
    ],
  ])(
    'resources that the server does not know are answered like those that are closed: its error in %s',
    async (__, failing) => {
      const errors: Record<string, object> = {
        'file:///missing': { code: -32002, message: 'Resource not found', data: { uri: 'x' } },
        'file:///odd': { code: 0, message: 'Unknown resource: file:///odd' },
        'file:///broken': { code: -32603, message: 'ENOENT' },
      };
      upstream = server({
        'resources/read': ({ id, params }) => {
          const error = errors[String(params?.['uri'])];
          return error ? failing(error, id) : { result: { contents: [] } };
        },
      });
      const uris = ['file:///drop', 'FILE:///Drop/', 'file:///drop/a', ...Object.keys(errors)];
      const answers = [];
      for (const uri of uris) answers.push(await seen(await ask('resources/read', { uri }), uri));
      const read = await bodyText(await ask('resources/read', { uri: 'file:///keep' }));

      expect(new Set(answers.map((one) => JSON.stringify(one))).size).toBe(1);
      expect(answers[0]?.text).toMatch(
        /"error":\{"code":-32\d{3},"message":"resource not found: NAME","data":\{"uri":"NAME"\}\}\}$/,
      );
      expect(read).toContain('"contents":[]');
      expect(refusedCodes()).toEqual([
        ...Array<string>(3).fill('closed_resource'),
        ...Array<string>(3).fill('unknown_resource'),
      ]);
      expect(new Set(ended.mock.calls.slice(0, 6).map(([{ end }]) => end))).toEqual(
        new Set(['refused']),
      );
    },
  );

  test('without rules about resources, the errors of the server pass', async () => {
    target = {
      rules: {
        ...restricted,
        named: { ...restricted.named, resource: new Map(), template: new Map() },
      },
    };
    upstream = server({ 'resources/read': () => ({ error: { code: 0, message: 'my own' } }) });

    expect(await bodyText(await ask('resources/read', { uri: 'a:b' }))).toContain('my own');
  });

  test('a name is decided about once all pages of a list that nobody had read were read', async () => {
    const made = server();
    upstream = made;
    const kept = await bodyText(await ask('tools/call', { name: 'keep' }));
    const again = await bodyText(await ask('tools/call', { name: 'keep' }));
    const closed = await bodyText(await ask('tools/call', { name: 'drop' }));
    const unknown = await bodyText(await ask('tools/call', { name: 'other' }));

    expect([kept, again].map((text) => text.includes('"of":"tools/call"'))).toEqual([true, true]);
    expect([closed, unknown].every((text) => text.includes('unknown tool'))).toBe(true);
    expect(made.asked).toEqual(['tools/list', 'tools/list', 'tools/call', 'tools/call']);
  });

  test('the same holds for prompts and for templates to complete', async () => {
    const made = server();
    upstream = made;
    const completion = (uri: string) => ({
      ref: { type: 'ref/resource', uri },
      argument: { name: 'x', value: '' },
    });
    const prompt = await bodyText(await ask('prompts/get', { name: 'keep' }));
    const template = await bodyText(
      await ask('completion/complete', completion('file:///keep/{x}')),
    );
    const other = await bodyText(await ask('completion/complete', completion('file:///other/{x}')));

    expect(prompt).toContain('"of":"prompts/get"');
    expect(template).toContain('"of":"completion/complete"');
    expect(other).toContain('resource not found');
    expect(made.asked).toEqual([
      'prompts/list',
      'prompts/get',
      'resources/templates/list',
      'completion/complete',
    ]);
  });

  test.each([
    ['with an error', () => ({ error: { code: -32603, message: 'down' } }), 502],
    ['with a list in two ways', () => ({ result: { tools: [], Tools: [{ name: 'keep' }] } }), 502],
    ['with HTTP 500', () => ({ status: 500 }), 502],
    ['with nothing', () => ({ status: 202 }), 502],
    ['with more pages than a hundred', () => ({ result: { tools: [], nextCursor: 'again' } }), 502],
  ])('nothing is sent if the list cannot be read: answered %s', async (__, failing, status) => {
    const made = server({ 'tools/list': failing });
    upstream = made;
    notes = false;
    const open = await seen(await ask('tools/call', { name: 'keep' }), 'keep');
    const closed = await seen(await ask('tools/call', { name: 'drop' }), 'drop');

    expect(open.status).toBe(status);
    expect(open).toEqual(closed);
    expect(made.asked).not.toContain('tools/call');
  });

  test('a server without such lists has no such names', async () => {
    upstream = server({
      'prompts/list': ({ id }) => ({
        status: 404,
        text: `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":{"code":-32601,"message":"none"}}`,
      }),
    });

    expect(await bodyText(await ask('prompts/get', { name: 'keep' }))).toContain('unknown prompt');
  });

  test('a name that is listed, but was not noted, is not open', async () => {
    notes = false;
    const made = server();
    upstream = made;
    const listed = await ask('tools/call', { name: 'keep' });
    const other = await bodyText(await ask('tools/call', { name: 'other' }));

    expect(listed.status).toBe(503);
    expect(other).toContain('unknown tool');
    expect(made.asked).not.toContain('tools/call');
  });

  test('without the scope, no list is read', async () => {
    byKey.mockResolvedValue({
      endpoint: someServer({ target }),
      toolCaller: caller,
      keyId: 'key_a',
      scopes: ['mcp:tools:read'],
    });
    const made = server();
    upstream = made;

    expect((await ask('tools/call', { name: 'keep' })).status).toBe(403);
    expect(made.asked).toEqual([]);
  });

  test('a list shows what may be called', async () => {
    const answer = await bodyText(await ask('tools/list', { cursor: '' }));
    const first = await bodyText(await ask('tools/list', {}));

    expect(answer).toContain('keep');
    expect(first).not.toContain('drop');
    expect(first).toContain('"nextCursor":""');
  });
});

test.each([
  ['in a session of its own', true],
  ['without a handshake', false],
])('a list of a server with sessions is read for a caller %s', async (_, isOwn) => {
  const sessions: (string | undefined)[] = [];
  const asked: string[] = [];
  let opened = 0;
  upstream = fakeUpstream(({ text, headers, method: verb }) => {
    if (verb !== 'POST') return { status: 204 };
    const { id, method = '' }: Asked = JSON.parse(text);
    const answer = (rest: object) => ({ text: JSON.stringify({ jsonrpc: '2.0', id, ...rest }) });
    if (method === 'server/discover') return answer({ error: { code: -32601, message: 'no' } });
    if (method === 'initialize') {
      opened += 1;
      const result = { protocolVersion: '2025-06-18', capabilities: { tools: {} } };
      return { ...answer({ result }), sessionId: `s-${opened}` };
    }
    if (id === undefined) return { status: 202 };
    sessions.push(headers['mcp-session-id']);
    asked.push(method);
    return answer({
      result: method === 'tools/list' ? { tools: [{ name: 'keep' }] } : { of: method },
    });
  });
  const begun = isOwn ? await post(initialize()) : undefined;
  const id = begun?.headers['Mcp-Session-Id'];
  const call = (name: string) =>
    post(
      rpc('tools/call', { name }, 7),
      id === undefined ? {} : { 'mcp-session-id': id, 'mcp-protocol-version': '2025-06-18' },
    );
  const kept = await bodyText(await call('keep'));
  const closed = await bodyText(await call('drop'));

  expect(kept).toBe('{"jsonrpc":"2.0","id":7,"result":{"of":"tools/call"}}');
  expect(closed).toContain('unknown tool');
  expect(asked).toEqual(['tools/list', 'tools/call']);
  expect(sessions).toEqual(isOwn ? ['s-2', 's-1'] : ['s-1', 's-1']);
});

test('many calls at once read a list once', async () => {
  const made = server();
  upstream = made;
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => modernly('tools/call', { name: 'keep' })),
  );

  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect(made.asked.filter((method) => method === 'tools/list')).toHaveLength(2);
});

test('callers of another account read a list themselves only if the reading before them failed', async () => {
  const made = server({
    'tools/list': () =>
      made.asked.length === 1
        ? { error: { code: -32603, message: 'no account' } }
        : { result: { tools: [{ name: 'keep' }] } },
  });
  upstream = made;
  byKey.mockImplementation(({ keyHash }) =>
    Promise.resolve({
      endpoint: someServer({ target }),
      toolCaller: caller,
      keyId: `key_${keyHash}`,
      scopes: [...allScopes],
    }),
  );
  const { body, headers } = modern('tools/call', { name: 'keep' });
  const [one, other] = await Promise.all([
    post(body, headers),
    post(body, headers, mintSecret('mcp_')),
  ]);

  expect(new Set([one.status, other.status])).toEqual(new Set([200, 502]));
});

test('an upstream that cannot be reached is reported as such', async () => {
  upstream = { send: () => Promise.reject(new UpstreamError('unreachable', 'no')) };

  expect((await modernly('tools/call', { name: 'keep' })).status).toBe(502);
  expect(refusedCodes()).toEqual(['upstream_unreachable']);
});

test('a read result is private where rules are about resources, and unchanged elsewhere', async () => {
  const text = (id: unknown) =>
    `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"contents":[],"ttlMs":5,"cacheScope":"public"}}`;
  upstream = server({ 'resources/read': ({ id }) => ({ text: text(id) }) });
  const ruled = await bodyText(await modernly('resources/read', { uri: 'a:b' }));
  target = {};
  const free = await bodyText(await modernly('resources/read', { uri: 'a:b' }));

  expect(ruled).toBe(text(7).replace('public', 'private'));
  expect(free).toBe(text(7));
});

test('an embedded resource passes, whoever may read it', async () => {
  target = { rules: restricted, offered: { ...nothing, open: { tool: new Set(['keep']) } } };
  upstream = server({
    'tools/call': () => ({
      result: { content: [{ type: 'resource', resource: { uri: 'file:///drop', text: 'x' } }] },
    }),
  });

  expect(await bodyText(await modernly('tools/call', { name: 'keep' }))).toContain('file:///drop');
});

test('events about resources that are closed are dropped from the stream of an answer', async () => {
  const updated = (uri: string) =>
    `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"${uri}"}}`;
  target = { rules: restricted, offered: { ...nothing, open: { tool: new Set(['keep']) } } };
  upstream = server({
    'tools/call': ({ id }) => ({
      mediaType: 'text/event-stream',
      text: eventStream(
        updated('file:///drop'),
        updated('file:///%64rop'),
        updated('file:///keep'),
        '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":["file:///drop"]}}',
        `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{}}`,
      ),
    }),
  });
  const text = await bodyText(await modernly('tools/call', { name: 'keep' }));

  expect([...text.matchAll(/"uri":(.*?)\}/g)].map(([, uri]) => uri)).toEqual(['"file:///keep"']);
  expect(text).toContain('"result":{}');
});

test('a credential that acts for no person reads nothing of a group', async () => {
  caller = ofNoPerson;
  target = {
    rules: restricted,
    offered: { ...nothing, open: { tool: new Set(['drop', 'keep']) } },
  };
  const codes = [];
  for (const name of ['drop', 'keep'])
    codes.push((await bodyText(await plainly('tools/call', { name }))).includes('unknown'));

  expect(codes).toEqual([true, false]);
});
