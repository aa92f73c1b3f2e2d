// Compares translated messages with those made in the plain way: read, change and write one object after the other, then scan the result.
import { expect, test } from 'vitest';

import { type MemberChanges, withMembers } from '#mcp/json-edit';
import { type Message, readMessage, spanAt, valueAt } from '#mcp/message';
import { legacyRequest, metaPrefix, modernResult } from '#mcp/translation';

const describing = ['protocolVersion', 'clientInfo', 'clientCapabilities', 'logLevel'];

function plainRequest({ body, envelope }: Message, id: string): Buffer {
  const { root, params, meta, progressToken } = envelope;
  const without: MemberChanges = Object.fromEntries(
    describing.map((name) => [metaPrefix + name, undefined]),
  );
  const kept = withMembers(body, meta, {
    ...without,
    ...(progressToken !== undefined && { progressToken: id }),
  }).toString();
  const changed = withMembers(body, params, {
    _meta: kept === '{}' ? undefined : kept,
    inputResponses: undefined,
    requestState: undefined,
  });
  return withMembers(body, root, { id, params: changed });
}

function plainResult(response: Message, method: string, id: string): Buffer {
  const { body, envelope } = response;
  const result = spanAt(response, 'result');
  const hints = method === 'tools/list' && { ttlMs: '0', cacheScope: '"private"' };
  const isMissing = valueAt(response, 'error', 'code') === -32002;
  const changes = result
    ? { result: withMembers(body, result, { resultType: '"complete"', ...hints }) }
    : isMissing && {
        error: withMembers(body, spanAt(response, 'error'), { code: '-32602' }),
      };
  return withMembers(body, envelope.root, { id, ...changes });
}

/** Expects each translation of a message to have the bytes that the plain way makes, and the envelope that a scan of these bytes finds. */
function expectPlain(text: string): Message['envelope']['kind'] | undefined {
  const message = readMessage(Buffer.from(text));
  if (!message) return undefined;
  const { kind } = message.envelope;
  const made =
    kind === 'request'
      ? [[legacyRequest(message, '17'), plainRequest(message, '17')] as const]
      : ['tools/call', 'tools/list'].flatMap((method) =>
          ['"é\\n"', '12345678901234567890'].map(
            (id) => [modernResult(message, method, id), plainResult(message, method, id)] as const,
          ),
        );
  for (const [{ body, envelope }, plain] of made) {
    expect({ text, made: body.toString() }).toEqual({ text, made: plain.toString() });
    expect({ text, envelope }).toStrictEqual({ text, envelope: readMessage(plain)?.envelope });
  }
  return kind;
}

const request = (params: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`;
const response = (result: string) => `{"result":${result},"id":1,"jsonrpc":"2.0"}`;
const deep = (levels: number) => `${'{"id":['.repeat(levels)}1${']}'.repeat(levels)}`;
const info = `"${metaPrefix}clientInfo":{"name":"c"}`;

test.each([
  ['no params', '{"jsonrpc":"2.0","id":1,"method":"ping"}'],
  ['params that are an array', request('[1,{"_meta":{}}]')],
  ['empty params', request('{}')],
  ['an empty _meta', request('{"_meta":{},"name":"a"}')],
  ['a _meta that only describes the client', request(`{"name":"a","_meta":{${info}}}`)],
  ['a _meta between others', request(`{"a":1,"_meta":{"b":2,${info},"c":3},"d":4}`)],
  ['a token, which is replaced', request(`{"_meta":{"progressToken":"t","a":1,${info}}}`)],
  ['a token that is none', request(`{"_meta":{"progressToken":{"a":1},${info}}}`)],
  ['members in another order', '{"params":{"name":"a"},"method":"m","id":1,"jsonrpc":"2.0"}'],
  [
    'escapes in values of its own',
    String.raw`{"jsonrpc":"2\u002e0","id":1,"method":"tools\/call"}`,
  ],
  [
    'escapes in names',
    String.raw`{"json\u0072pc":"2.0","i\u0064":1,"method":"m","par\u0061ms":{}}`,
  ],
  [
    'escapes in removed names',
    request(String.raw`{"_m\u0065ta":{"io.modelcontextprotocol\/logLevel":1}}`),
  ],
  ['escapes in kept names', request(String.raw`{"a\/b":1,"\u00e9":2,"\"":3,"_meta":{"\n":1}}`)],
  [
    'names of outer members inside',
    request('{"arguments":{"id":2,"params":{"_meta":{}},"_meta":{"progressToken":1}}}'),
  ],
  ['what continues a call', request('{"inputResponses":{"a":1},"requestState":"s","name":"a"}')],
  ['a state that is no string', request('{"requestState":1,"cursor":2,"name":"a"}')],
  [
    'whitespace everywhere',
    ' { "jsonrpc" : "2.0" , "id" : 1 , "method" : "m" , "params" : { "a" : [ 1 , 2 ] , "_meta" : { "b" : { } } } } ',
  ],
  [
    'numbers that JSON.parse would change',
    request('{"n":9007199254740993,"m":1.50,"e":1E+2,"z":-0}'),
  ],
  ['deep nesting', request(`{"arguments":${deep(28)},"_meta":{"a":${deep(28)}}}`)],
  ['characters of several bytes', request('{"é":"😀","_meta":{"é":"😀"}}')],
  [
    'a result with the members of the modern era',
    response('{"resultType":"x","ttlMs":5,"a":1,"cacheScope":"public"}'),
  ],
  ['an empty result', response('{}')],
  ['a result with whitespace', response(' { "content" : [ ] , "a":1, "b" : 2 } ')],
  [
    'a result with escapes in names',
    response(String.raw`{"result\u0054ype":"x","cont\u0065nt":[],"a\/b":1,"c":2}`),
  ],
  [
    'a result with names of outer members',
    response('{"id":2,"result":{"resultType":"x"},"error":1,"jsonrpc":3}'),
  ],
  ['a result that is no object', response('[{"resultType":"x"}]')],
  ['a result of null', response('null')],
  ['a missing resource', '{"error":{"code":-32002,"message":"m"},"id":1,"jsonrpc":"2.0"}'],
  ['another error', '{"jsonrpc":"2.0","id":1,"error":{"message":"m","code":-32603}}'],
  ['an error that is no object', '{"jsonrpc":"2.0","id":1,"error":7}'],
])('a message with %s is translated into the same bytes', (_, text) => {
  expect(expectPlain(text)).toBeDefined();
});

test.each([
  ['in the message', '{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}'],
  ['in params', request('{"a":1,"\\u0061":2}')],
  ['in _meta', request(`{"_meta":{${info},${info}}}`)],
  ['in a result', response('{"resultType":"x","resultType":"y"}')],
])('a message with a member twice %s is not translated', (_, text) => {
  expect(expectPlain(text)).toBeUndefined();
});

/** Deterministic, so that a failure can be seen again. mulberry32 */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const names = [
  'id',
  'params',
  '_meta',
  'result',
  'resultType',
  'name',
  'progressToken',
  'requestState',
]
  .concat(['inputResponses', 'ttlMs', 'cacheScope', 'é', 'a/b', 'x"y', 'cursor'])
  .concat(describing.map((name) => metaPrefix + name));

/** Writes random JSON, with escapes and whitespace wherever they are allowed. */
class Writer {
  readonly #below: (limit: number) => number;

  constructor(seed: number) {
    this.#below = random(seed);
  }

  pick<One>(of: readonly [One, ...One[]]): One {
    return of[this.#below(of.length)] ?? of[0];
  }

  text(text: string): string {
    if (this.#below(5) > 0) return JSON.stringify(text);
    const unit = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;
    const escaped = (letter: string) => (letter === '/' ? '\\/' : unit(letter));
    const letters = Array.from(text, (letter) =>
      this.#below(3) > 0 ? JSON.stringify(letter).slice(1, -1) : escaped(letter),
    );
    return `"${letters.join('')}"`;
  }

  value(depth = 0): string {
    const scalars = [
      '0',
      '-1.50',
      '9007199254740993',
      'null',
      '"é"',
      '"a\\n"',
      '[]',
      '{}',
    ] as const;
    if (depth > 3 || this.#below(2) === 0) return this.pick(scalars);
    if (this.#below(3) === 0)
      return `[${this.#blank()}${this.value(depth + 1)},${this.value(depth + 1)}]`;
    return this.object(depth + 1);
  }

  object(depth = 0, given: Readonly<Record<string, string>> = {}): string {
    const all = new Map(Object.entries(given));
    for (let more = this.#below(5); more > 0; more -= 1) {
      const name = names[this.#below(names.length)] ?? '';
      if (!all.has(name)) all.set(name, this.value(depth + 1));
    }
    return this.written(Object.fromEntries(all));
  }

  /** The members in any order. */
  written(members: Readonly<Record<string, string>>): string {
    const blank = () => this.#blank();
    const ordered = Object.entries(members)
      .map((member) => ({ member, at: this.#below(1000) }))
      .toSorted((one, other) => one.at - other.at);
    const written = ordered.map(
      ({ member: [name, json] }) =>
        `${blank()}${this.text(name)}${blank()}:${blank()}${json}${blank()}`,
    );
    return `{${blank()}${written.join(',')}}`;
  }

  message(): string {
    const version = this.pick(['"2.0"', '"2.0"', '"2\\u002e0"']);
    const head = { jsonrpc: version, id: this.pick(['1', '"a\\u0062"', '12345678901234567890']) };
    if (this.#below(2) === 0)
      return this.written({ ...head, [this.pick(['result', 'result', 'error'])]: this.value() });
    const named: Record<string, string> = { ...head, method: this.text('tools/call') };
    if (this.#below(9) > 0) named['params'] = this.object(0, { _meta: this.object(1) });
    return this.written(named);
  }

  #blank(): string {
    return this.#below(6) > 0 ? '' : this.pick([' ', '\n\t']);
  }
}

test('messages written in any way are translated into the same bytes', () => {
  const seen = { request: 0, response: 0, notification: 0, refused: 0 };
  for (let seed = 1; seed <= 4000; seed += 1) {
    seen[expectPlain(new Writer(seed).message()) ?? 'refused'] += 1;
  }

  expect(seen.request).toBeGreaterThan(1000);
  expect(seen.response).toBeGreaterThan(1000);
});
