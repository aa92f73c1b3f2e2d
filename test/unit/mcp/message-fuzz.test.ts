import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';

import { JsonError, jsonMembers } from '#mcp/json';
import { scanMessage } from '#mcp/message';

const seeds = [
  '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query","arguments":{"sql":"select 1","n":[1,2.5e-3,-0]}}}',
  '{"jsonrpc":"2.0","id":"é\\u00e9\\ud83d\\ude00","method":"resources/read","params":{"uri":"file:///a","_meta":{"progressToken":7,"a/b":{"c":null}}}}',
  '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345678901234567890,"reason":"tired"}}',
  '{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"a\\n\\"b\\""}],"isError":false}}',
  '{ "id" : 2 , "jsonrpc" : "2.0" , "error" : { "code" : -32601 , "message" : "no" } }',
];
const inserts =
  String.raw`{ } [ ] , : " \ \u0061 \ud800 \udc00 0 - . e null true "a":1, "id":3, "__proto__":1, é x [[`
    .split(' ')
    .concat(' ', '\n', '\0', '\ufeff');

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

function mutated(text: string, below: (limit: number) => number): Buffer {
  let body = Buffer.from(text);
  for (let edits = below(4); edits >= 0; edits--) {
    const at = below(body.length + 1);
    const rest = body.subarray(at + (below(2) ? below(4) : 0));
    const insert = [
      () => Buffer.from(inserts[below(inserts.length)] ?? ''),
      () => Buffer.from([below(256)]),
      () => body.subarray(below(body.length), below(body.length)),
      () => Buffer.alloc(0),
    ][below(4)];
    body = Buffer.concat([body.subarray(0, at), insert?.() ?? Buffer.alloc(0), rest]);
  }
  return body;
}

function parsed(body: Buffer): { value: unknown } | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

test('what the scan accepts JSON.parse reads the same, and it refuses only for its reasons', () => {
  const below = random(20261120);
  const seen = { message: 0, 'not JSON': 0, 'not allowed': 0 };

  for (let round = 0; round < 20_000; round++) {
    const body = mutated(seeds[below(seeds.length)] ?? '', below);
    const text = body.toString();
    const scan = scanMessage(body);
    const json = parsed(body);

    if (scan.outcome === 'refused') {
      seen[scan.code === -32700 ? 'not JSON' : 'not allowed']++;
      if (scan.code === -32700 && json && scan.reason !== 'a lone surrogate is escaped')
        throw new Error(`refused: ${scan.reason}: ${text}`);
      if (scan.code === -32600 && !json && !scan.reason.startsWith('nested'))
        throw new Error(`called JSON: ${text}`);
      continue;
    }
    seen.message++;
    const { envelope } = scan;
    const value = json?.value;
    if (!isObject(value)) throw new Error(`accepted: ${text}`);
    const part = (span?: { start: number; end: number }): unknown =>
      span && JSON.parse(body.toString('utf8', span.start, span.end));
    const params = isObject(value['params']) ? value['params'] : {};
    expect(envelope.method).toBe(value['method']);
    expect(part(envelope.params)).toEqual(value['params']);
    expect(part(envelope.meta)).toEqual(params['_meta']);
    expect(envelope.id && JSON.parse(envelope.id)).toBe(value['id']);
    expect(envelope.name).toBe(typeof params['name'] === 'string' ? params['name'] : undefined);
    expect(envelope.uri).toBe(typeof params['uri'] === 'string' ? params['uri'] : undefined);
  }

  expect(Math.min(...Object.values(seen))).toBeGreaterThan(500);
});

test('every beginning of a message is refused', () => {
  for (const seed of seeds) {
    const body = Buffer.from(seed);
    for (let end = 0; end < body.length; end++)
      expect(scanMessage(body.subarray(0, end)).outcome).toBe('refused');
  }
});

function membersOrError(body: Buffer): ReturnType<typeof jsonMembers> | JsonError {
  try {
    return jsonMembers(body);
  } catch (error) {
    if (error instanceof JsonError) return error;
    throw error;
  }
}

test('all members are read as by JSON.parse, and only what is not JSON or comes twice is refused', () => {
  const below = random(20261123);
  const seen = { members: 0, 'not JSON': 0, twice: 0 };

  for (let round = 0; round < 20_000; round++) {
    const seed = seeds[below(seeds.length)] ?? '';
    const body = mutated(below(8) > 0 ? seed : seed.replace('{', '{"id":3,'), below);
    const members = membersOrError(body);
    const json = parsed(body);

    if (members instanceof JsonError) {
      seen[json ? 'twice' : 'not JSON']++;
      if (!json) continue;
      const [text = 'null'] = /^"(?:[^"\\]|\\.)*"/.exec(body.toString('utf8', members.at)) ?? [];
      if (!Object.keys(json.value ?? {}).includes(JSON.parse(text)))
        throw new Error(`refused: ${body.toString()}`);
      continue;
    }
    seen.members++;
    if (!json) throw new Error(`accepted: ${body.toString()}`);
    if ((members !== undefined) !== isObject(json.value))
      throw new Error(`not an object: ${body.toString()}`);
    const values = [...(members ?? [])].map(([name, { start, end }]) => [
      name,
      JSON.parse(body.toString('utf8', start, end)),
    ]);
    if (members && !isDeepStrictEqual(Object.fromEntries(values), json.value))
      throw new Error(`read differently: ${body.toString()}`);
  }

  expect(Math.min(...Object.values(seen))).toBeGreaterThan(100);
});
