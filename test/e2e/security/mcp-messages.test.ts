import { afterAll, beforeEach, expect, test } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall, modern, rpc, toolsList } from '#support/mcp-call';
import {
  bothErasAnswer,
  recordingUpstream,
  sendJson,
  type RecordingUpstream,
} from '#support/upstreams/recording-upstream';

const upstream = await recordingUpstream();
const gateway = await gatewayUnderTest({ upstreamUrl: upstream.url });
const { endpoint, key } = gateway;
/** Speaks both eras, so that the messages of either pass untranslated. */
const both = await recordingUpstream();
both.answer = bothErasAnswer;
await gateway.command('server', 'create', 'acme/both', '--http-url', both.url);
const bothEndpoint = endpoint.replace('fixture', 'both');
const { key: bothKey } = await gateway.newKey('acme/both');

beforeEach(() => void upstream.requests.splice(0));

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
  await both[Symbol.asyncDispose]();
});

test.for(['[]', `[${toolsList}]`, `[${toolsList},${toolsList}]`, ` [ ${toolsList} ] `])(
  '65: message: a batch gets 400 with -32600: %s',
  async (body) => {
    const answer = await mcpCall(endpoint, { key, body });

    expect([answer.status, answer.errorCode]).toEqual([400, -32600]);
    expect(upstream.calls()).toEqual([]);
  },
);

test('65: message: a response that no request waits for gets 400', async () => {
  const result = '{"jsonrpc":"2.0","id":1,"result":{}}';
  const error = '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}';
  for (const version of ['2026-07-28', '2025-11-25', undefined]) {
    const headers = version === undefined ? {} : { 'mcp-protocol-version': version };
    for (const body of [result, error]) {
      const answer = await mcpCall(endpoint, { key, body, headers });

      expect([answer.status, answer.errorCode]).toEqual([400, -32600]);
    }
  }
  expect(upstream.calls()).toEqual([]);
});

const call = modern('tools/call', { name: 'echo' });
const without = (name: string) =>
  Object.fromEntries(Object.entries(call.headers).filter(([header]) => header !== name));

test.for<[name: string, headers: Record<string, string>]>([
  ['no MCP-Protocol-Version', without('mcp-protocol-version')],
  ['an older MCP-Protocol-Version', { ...call.headers, 'mcp-protocol-version': '2025-11-25' }],
  ['no Mcp-Method', without('mcp-method')],
  ['another Mcp-Method', { ...call.headers, 'mcp-method': 'tools/list' }],
  ['an Mcp-Method in capitals', { ...call.headers, 'mcp-method': 'TOOLS/CALL' }],
  ['two values of Mcp-Method', { ...call.headers, 'mcp-method': 'tools/call, tools/list' }],
  ['no Mcp-Name', without('mcp-name')],
  ['another Mcp-Name', { ...call.headers, 'mcp-name': 'other' }],
  ['another Mcp-Name in base64', { ...call.headers, 'mcp-name': '=?base64?b3RoZXI=?=' }],
])('66: modern request: %s gets 400 with -32020', async ([, headers]) => {
  const answer = await mcpCall(endpoint, { key, body: call.body, headers });

  expect([answer.status, answer.errorCode]).toEqual([400, -32020]);
  expect(upstream.calls()).toEqual([]);
});

test('66: modern request: the header alone makes it modern, and then _meta is missing', async () => {
  const headers = { 'mcp-protocol-version': '2026-07-28' };

  const answer = await mcpCall(endpoint, { key, headers });

  expect([answer.status, answer.errorCode]).toEqual([400, -32602]);
});

test('66: modern request: correct headers, in base64 where necessary, are served', async () => {
  const name = 'schön \u{1f511}';
  const encoded = `=?base64?${Buffer.from(name).toString('base64')}?=`;
  const named = modern('tools/call', { name });

  const ascii = await mcpCall(bothEndpoint, { key: bothKey, ...call });
  const other = await mcpCall(bothEndpoint, {
    key: bothKey,
    body: named.body,
    headers: { ...call.headers, 'mcp-name': encoded },
  });

  expect([ascii.status, other.status]).toEqual([200, 200]);
  expect(both.calls().at(-1)?.headers['mcp-name']).toBe(encoded);
});

test('66: modern request: an unknown version gets 400 with -32022 and the known versions', async () => {
  const body = call.body.replace('2026-07-28', '2099-01-01');
  const headers = { ...call.headers, 'mcp-protocol-version': '2099-01-01' };
  const inBoth = await mcpCall(endpoint, { key, body, headers });
  const inHeader = await mcpCall(endpoint, { key, headers });
  const legacyInMeta = await mcpCall(endpoint, {
    key,
    body: call.body.replace('2026-07-28', '2025-11-25'),
    headers: { ...call.headers, 'mcp-protocol-version': '2025-11-25' },
  });

  for (const answer of [inBoth, inHeader, legacyInMeta]) {
    expect([answer.status, answer.errorCode]).toEqual([400, -32022]);
    expect(answer.text).toContain('"supported":["2026-07-28"]');
  }
  expect(upstream.calls()).toEqual([]);
});

const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;

test.for<[name: string, body: string | Buffer, code: number]>([
  ['a member twice', '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}', -32600],
  ['the id twice', '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600],
  [
    'a member twice, once escaped',
    String.raw`{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call"}`,
    -32600,
  ],
  [
    'a name twice in params',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}',
    -32600,
  ],
  [
    'a member twice far inside',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":[{"y":1,"y":2}]}}}',
    -32600,
  ],
  ['Method', '{"jsonrpc":"2.0","id":1,"Method":"tools/call","method":"ping"}', -32600],
  ['METHOD alone', '{"jsonrpc":"2.0","id":1,"METHOD":"ping"}', -32600],
  [
    'Name in params',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}',
    -32600,
  ],
  ['__proto__', '{"jsonrpc":"2.0","id":1,"method":"ping","__proto__":{}}', -32600],
  [
    '__proto__ inside',
    '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"__proto__":{"x":1}}}}',
    -32600,
  ],
  ['another member', '{"jsonrpc":"2.0","id":1,"method":"ping","extra":1}', -32600],
  ['a byte order mark', `\ufeff${toolsList}`, -32700],
  ['trailing data', `${toolsList}{}`, -32700],
  ['a trailing NUL', `${toolsList}\0`, -32700],
  ['two messages', `${toolsList}\n${toolsList}`, -32700],
  ['invalid UTF-8', Buffer.from(toolsList.replace('tools', 't\xffols'), 'latin1'), -32700],
  ['overlong UTF-8', Buffer.from(toolsList.replace('tools', 't\xc0\xafols'), 'latin1'), -32700],
  ['a surrogate in UTF-8', Buffer.from(toolsList.replace('t', '\xed\xa0\x80'), 'latin1'), -32700],
  [
    'a lone surrogate',
    String.raw`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}}`,
    -32700,
  ],
  ['UTF-16', Buffer.from(toolsList, 'utf16le'), -32700],
  ['the id null', '{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600],
  ['the id an object', '{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600],
  ['the id a list', '{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600],
  ['the id true', '{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600],
  ['jsonrpc 1.0', '{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600],
  ['jsonrpc a number', '{"jsonrpc":2.0,"id":1,"method":"ping"}', -32600],
  ['no jsonrpc', '{"id":1,"method":"ping"}', -32600],
  ['a method that is no string', '{"jsonrpc":"2.0","id":1,"method":["ping"]}', -32600],
  ['a method and a result', '{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}', -32600],
  ['_meta a list', '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":[]}}', -32600],
  ['nothing', '', -32700],
  ['blanks', '  \n', -32700],
  ['null', 'null', -32600],
  ['a string', '"ping"', -32600],
  ['NaN', '{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700],
  ['a comment', '{"jsonrpc":"2.0","id":1,/**/"method":"ping"}', -32700],
  ['single quotes', "{'jsonrpc':'2.0','id':1,'method':'ping'}", -32700],
  ['a trailing comma', '{"jsonrpc":"2.0","id":1,"method":"ping",}', -32700],
  ['a leading zero', '{"jsonrpc":"2.0","id":01,"method":"ping"}', -32700],
  ['65 levels', `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":${deep(63)}}}`, -32600],
  ['100,000 levels', deep(100_000), -32600],
])('67: message: %s is refused', async ([, body, code]) => {
  for (const version of [undefined, '2025-11-25', '2026-07-28']) {
    const headers = version === undefined ? {} : { 'mcp-protocol-version': version };
    const answer = await mcpCall(endpoint, { key, body, headers });

    expect([version, answer.status, answer.errorCode]).toEqual([version, 400, code]);
  }
  expect(upstream.calls()).toEqual([]);
});

test('67: message: 64 levels of nesting are served', async () => {
  const body = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":${deep(62)}}}`;

  expect((await mcpCall(endpoint, { key, body })).status).toBe(200);
});

const odd = String.raw` {"jsonrpc" :"2.0",
  "params":{"name":"echo","arguments":{"big":12345678901234567890,"small":1e-400,"frac":0.10,"neg":-0,"esc":"\u00e9\/é","constructor":1}@META@},"method":"tools\/call","id":@ID@ }
`;
const ids = [
  '9007199254740993',
  '12345678901234567890',
  '1.50',
  '-0',
  '1e2',
  '"a"',
  '"\\u00e9\\n"',
];

/** Answers any request under its own id, byte for byte. */
function echoIds(by: RecordingUpstream): void {
  const usual = by.answer;
  by.answer = (request, response) => {
    const id = /"id":((?:"(?:[^"\\]|\\.)*"|[-+.\deE]+)) }/.exec(request.body.toString())?.[1];
    if (id === undefined) usual(request, response);
    else sendJson(response, `{"jsonrpc":"2.0","id":${id},"result":{"seen":12345678901234567890}}`);
  };
}

test.for(ids)(
  '67: message: the id %s and every other byte pass unchanged to the upstream and back',
  async (id) => {
    echoIds(upstream);
    echoIds(both);
    const meta = JSON.parse(call.body).params._meta;
    const older = odd.replace('@META@', '').replace('@ID@', () => id);
    const newer = odd
      .replace('@META@', `,"_meta":${JSON.stringify(meta)}`)
      .replace('@ID@', () => id);
    const legacy = await mcpCall(endpoint, {
      key,
      body: older,
      headers: { 'mcp-protocol-version': '2025-11-25' },
    });
    const atLegacy = upstream.calls().at(-1)?.body.toString();
    const { headers } = call;
    const modernAnswer = await mcpCall(bothEndpoint, { key: bothKey, body: newer, headers });
    const atModern = both.calls().at(-1)?.body.toString();
    const plain = await mcpCall(endpoint, { key, body: older });
    const atPlain = upstream.calls().at(-1)?.body.toString();

    expect(atLegacy).toBe(older);
    expect(atModern).toBe(newer);
    // The id is the gateway's own here, as many callers share one session.
    expect(atPlain?.replace(/"id":\d+ }/, () => `"id":${id} }`)).toBe(older);
    const answer = `{"jsonrpc":"2.0","id":${id},"result":{"seen":12345678901234567890}}`;
    expect([legacy.text, modernAnswer.text, plain.text]).toEqual([answer, answer, answer]);
  },
);

test('67: message: an error repeats the id byte for byte', async () => {
  for (const id of ids) {
    const body = `{"jsonrpc":"2.0","id":${id},"method":"unknown"}`;
    const { text } = await mcpCall(endpoint, { key, body });

    expect(text).toContain(`"id":${id},`);
  }
});

test('names of Object.prototype are not methods, kinds or tools', async () => {
  for (const kind of ['constructor', 'toString', 'hasOwnProperty']) {
    const body = rpc('subscriptions/listen', { notifications: { [kind]: true } });
    const answer = await mcpCall(endpoint, { key, body });

    expect([answer.status, answer.errorCode]).toEqual([200, -32602]);
  }
  expect(upstream.calls()).toEqual([]);
});
