import { memoryUsage } from 'node:process';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';

import { type Envelope, resultTo, scanMessage, withId } from '#mcp/message';

setFlagsFromString('--expose-gc');
const collectGarbage = z.function({ output: z.undefined() }).parse(runInNewContext('gc'));

const scan = (text: string | Buffer) => scanMessage(Buffer.from(text));
const nested = (depth: number) =>
  `{"jsonrpc":"2.0","id":1,"method":"m","params":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;

function envelope(text: string): Envelope {
  const result = scan(text);
  if (result.outcome === 'refused') throw new Error(`${result.code} ${result.reason}: ${text}`);
  return result.envelope;
}

const message = (members: string) => `{"jsonrpc":"2.0","id":1,"method":"m"${members}}`;

describe('what is no JSON is refused with -32700', () => {
  test.each([
    ['nothing', ''],
    ['blanks', ' \n'],
    ['a byte order mark', `\ufeff${message('')}`],
    [
      'invalid UTF-8',
      Buffer.concat([Buffer.from('"'), Buffer.from([0xc0, 0xaf]), Buffer.from('"')]),
    ],
    ['a surrogate as UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ['trailing data', `${message('')} x`],
    ['a second message', `${message('')}${message('')}`],
    ['a trailing NUL', `${message('')}\0`],
    ['a trailing comma', '{"a":1,}'],
    ['a trailing comma in an array', '[1,]'],
    ['a leading comma', '[,1]'],
    ['two values', '[1 2]'],
    ['a missing colon', '{"a" 1}'],
    ['a missing value', '{"a":}'],
    ['an unquoted name', '{a:1}'],
    ['single quotes', "{'a':1}"],
    ['a comment', '{"a":1/**/}'],
    ['an open object', '{"a":1'],
    ['an open array', '[1'],
    ['an open string', '"abc'],
    ['an open escape', '"abc\\'],
    ['mismatched brackets', '[1}'],
    ['a raw line feed in a string', '"a\nb"'],
    ['an unknown escape', '"\\x41"'],
    ['a short \\u escape', '"\\u12"'],
    ['a non-hexadecimal \\u escape', '"\\u00g0"'],
    ['a lone high surrogate', '"\\ud800"'],
    ['a lone high surrogate before text', '"\\ud800abcdefgh"'],
    ['two high surrogates', '"\\ud800\\ud800"'],
    ['a lone low surrogate', '"\\udc00"'],
    ['a lone surrogate in a name', '{"\\ud800":1}'],
    ['a leading zero', '[01]'],
    ['a bare minus', '[-]'],
    ['a plus', '[+1]'],
    ['no fraction', '[1.]'],
    ['no whole part', '[.5]'],
    ['no exponent', '[1e]'],
    ['no exponent behind its sign', '[1e+]'],
    ['NaN', '[NaN]'],
    ['Infinity', '[-Infinity]'],
    ['a half literal', '[tru]'],
    ['a capital literal', '[True]'],
    ['a no-break space', '\u00a0{}'],
    ['a form feed', '\f{}'],
  ])('%s', (_, text) => {
    expect(scan(text)).toMatchObject({ outcome: 'refused', code: -32700 });
  });
});

describe('JSON that is no single JSON-RPC message to every reader is refused with -32600', () => {
  test.each([
    ['a batch', `[${message('')}]`],
    ['an empty batch', '[]'],
    ['a string', '"a"'],
    ['null', 'null'],
    ['an empty object', '{}'],
    ['no jsonrpc', '{"id":1,"method":"m"}'],
    ['jsonrpc 1.0', '{"jsonrpc":"1.0","id":1,"method":"m"}'],
    ['jsonrpc as a number', '{"jsonrpc":2.0,"id":1,"method":"m"}'],
    ['a method twice', message(',"method":"n"')],
    ['a method twice, once escaped', message(',"\\u006dethod":"n"')],
    ['a name twice far down', message(',"params":{"a":[{"b":{"c":1,"c":1}}]}')],
    ['a name twice, both escaped', message(',"params":{"a":{"\\u00e9":1,"é":2}}')],
    ['the empty name twice', message(',"params":{"":1,"":2}')],
    ['a name twice among many', message(`,"params":{${many(40)},"k7":1}`)],
    ['Method', message(',"Method":"n"')],
    ['METHOD alone', '{"jsonrpc":"2.0","id":1,"METHOD":"m"}'],
    ['an unknown member', message(',"extra":1')],
    ['__proto__', message(',"params":{"__proto__":{}}')],
    ['__proto__ escaped', message(',"params":{"a":{"__\\u0070roto__":{}}}')],
    ['Name', message(',"params":{"Name":"x"}')],
    ['ta\u017fkId', message(',"params":{"ta\u017fkId":"x"}')],
    ['tas\u212aId', message(',"params":{"tas\\u212aId":"x"}')],
    ['_META', message(',"params":{"_META":{}}')],
    ['ProgressToken', message(',"params":{"_meta":{"ProgressToken":1}}')],
    ['an id of null', '{"jsonrpc":"2.0","id":null,"method":"m"}'],
    ['an id of true', '{"jsonrpc":"2.0","id":true,"method":"m"}'],
    ['an id that is an object', '{"jsonrpc":"2.0","id":{},"method":"m"}'],
    ['an id that is an array', '{"jsonrpc":"2.0","id":[1],"method":"m"}'],
    ['a method that is a number', '{"jsonrpc":"2.0","id":1,"method":7}'],
    ['a method that is null', '{"jsonrpc":"2.0","id":1,"method":null}'],
    ['_meta that is a string', message(',"params":{"_meta":"a"}')],
    ['_meta that is null', message(',"params":{"_meta":null}')],
    ['an answer without an id', '{"jsonrpc":"2.0","result":{}}'],
    ['an answer to nobody', '{"jsonrpc":"2.0","id":null,"error":{}}'],
    ['a result and an error', '{"jsonrpc":"2.0","id":1,"result":{},"error":{}}'],
    ['an id alone', '{"jsonrpc":"2.0","id":1}'],
    ['a method and a result', message(',"result":{}')],
    ['an answer with params', '{"jsonrpc":"2.0","id":1,"result":{},"params":{}}'],
    ['65 levels', nested(65)],
  ])('%s', (_, text) => {
    expect(scan(text)).toMatchObject({ outcome: 'refused', code: -32600 });
  });
});

function many(count: number): string {
  return Array.from({ length: count }, (_, index) => `"k${index}":${index}`).join(',');
}

test('64 levels pass', () => {
  expect(scan(nested(64)).outcome).toBe('message');
});

test('many different names pass', () => {
  expect(scan(message(`,"params":{${many(1000)}}`)).outcome).toBe('message');
});

test('the same name in sibling objects passes', () => {
  expect(scan(message(',"params":{"a":[{"x":1},{"x":2}],"b":{"a":1}}')).outcome).toBe('message');
});

test.each([
  ['7', 'request'],
  ['-1.50', 'request'],
  ['12345678901234567890', 'request'],
  ['"a"', 'request'],
  ['"\\u0061é😀"', 'request'],
  ['""', 'request'],
])('an id of %s keeps its own text', (id, kind) => {
  const text = `{"jsonrpc":"2.0","id": ${id} ,"method":"m"}`;
  const found = envelope(text);

  expect(found).toMatchObject({ kind, id });
  expect(Buffer.from(text).toString('utf8', found.idSpan?.start, found.idSpan?.end)).toBe(id);
});

test('a message without an id is a notification, one with an answer a response', () => {
  expect(envelope('{"jsonrpc":"2.0","method":"notifications/initialized"}').kind).toBe(
    'notification',
  );
  expect(envelope('{"jsonrpc":"2.0","id":1,"result":null}').kind).toBe('response');
  expect(envelope('{"jsonrpc":"2.0","id":1,"error":{"code":1}}').kind).toBe('response');
});

test('what routing needs is decoded, in any order of members', () => {
  const text = `{"params":{"name":"caf\\u00e9 é","arguments":{"name":"no","uri":"no"},
    "_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28","x":{"progressToken":1}},
    "uri":"file:///\\ud83d\\ude00","requestId":1.0,"taskId":"t1","requestState":{"a":1},"protocolVersion":"old"},
    "method":"tools\\/call","id":3,"jsonrpc":"\\u0032.0"}`;
  const found = envelope(text);
  const at = (span: { start: number; end: number } | undefined) =>
    Buffer.from(text).toString('utf8', span?.start, span?.end);

  expect(found).toMatchObject({
    method: 'tools/call',
    name: 'café é',
    uri: 'file:///😀',
    requestId: '1.0',
    taskId: 't1',
    progressToken: '"t"',
    protocolVersion: '2026-07-28',
  });
  expect(found).not.toHaveProperty('initializeVersion');
  expect(at(found.requestState)).toBe('{"a":1}');
  expect(at(found.meta)).toMatch(/^\{"progressToken".*\}$/);
  expect(at(found.params)).toMatch(/^\{"name"[^]*"old"\}$/);
  expect(at(found.root)).toBe(text);
});

test('the version that an initialize requests is distinguished from the modern one', () => {
  const found = envelope(
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}',
  );

  expect(found.initializeVersion).toBe('2025-11-25');
  expect(found).not.toHaveProperty('protocolVersion');
});

test('members of another type are absent, and the first that had to be a string is named', () => {
  const wrong = envelope(message(',"params":{"taskId":[],"requestId":{},"uri":null,"name":1}'));

  expect(wrong).toMatchObject({ notAString: 'name' });
  expect(Object.keys(wrong).sort()).toEqual([
    'id',
    'idSpan',
    'kind',
    'method',
    'notAString',
    'params',
    'root',
  ]);
});

test.each(['["name","x"]', '[{"name":"x"}]', '"name"', 'null', '7'])(
  'params that are no object have no members: %s',
  (params) => {
    const read = envelope(message(`,"params":${params}`));

    expect(read).toHaveProperty('params');
    expect(read).not.toHaveProperty('name');
    expect(read).not.toHaveProperty('notAString');
  },
);

test.each<[string, (share: number) => string]>([
  ['a long string', (share) => `"${'x'.repeat((4 << 20) * share)}"`],
  [
    'many names of digits',
    (share) => `{${Array.from({ length: 99_990 * share }, (_, i) => `"${i}":0`).join()}}`,
  ],
  [
    'many small objects',
    (share) => `[${Array.from({ length: 99_990 * share }, () => '{"a":1}').join()}]`,
  ],
  ['many small arrays', (share) => `[${'[],'.repeat(999_990 * share)}0]`],
  ['many escapes', (share) => `"${'\\u00e9'.repeat(600_000 * share)}"`],
])(
  '4 MiB of %s take linear work',
  (_, make) => {
    const body = Buffer.from(message(`,"params":{"a":${make(1)}}`));

    expect(scanMessage(body).outcome).toBe('message');
  },
  // Linear work takes less than a second. Work that grows with the square of the size takes minutes.
  30_000,
);

test('107: an id of 1 KiB is accepted, and none that is longer', () => {
  const named = (letters: number) => {
    const id = 'x'.repeat(letters);
    return scanMessage(Buffer.from(`{"jsonrpc":"2.0","id":"${id}","method":"m"}`));
  };

  expect(named(1022)).toMatchObject({ outcome: 'message', envelope: { kind: 'request' } });
  expect(named(1023)).toEqual({
    outcome: 'refused',
    code: -32600,
    reason: 'an id has more than 1024 bytes',
  });
});

test('107: what is kept of an envelope keeps nothing else of the message', () => {
  const mebibytes = 64;
  const long = 'a-name-of-more-than-13-characters';
  const members = `"name":"${long}","uri":"${long}","requestId":"${long}","taskId":"${long}"`;
  const meta = `"_meta":{"progressToken":"${long}","io.modelcontextprotocol/protocolVersion":"${long}"}`;
  const body = Buffer.from(
    `{"jsonrpc":"2.0","id":"${long}","method":"${long}","params":{${members},${meta},"a":"${'x'.repeat(1 << 20)}"}}`,
  );
  const before = keptBytes();
  const envelopes = Array.from({ length: mebibytes }, () => scanMessage(body));

  expect(keptBytes() - before).toBeLessThan((mebibytes << 20) / 8);
  expect(envelopes).toHaveLength(mebibytes);
});

/** The bytes in use, in the heap and outside of it, after a garbage collection. */
function keptBytes(): number {
  collectGarbage();
  const { heapUsed, external } = memoryUsage();
  return heapUsed + external;
}

test('withId: an id of several bytes a letter moves all spans by its bytes', () => {
  const result = '{"tools":[{"name":"é"}]}';

  expect(withId(resultTo('0', result), '"éé"')).toEqual(resultTo('"éé"', result));
});
