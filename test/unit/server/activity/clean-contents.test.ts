import { property, assert, jsonValue, integer, string, tuple } from 'fast-check';
import { describe, expect, test } from 'vitest';

import { cleanedContents } from '#server/activity/clean-contents';
import { CallContents, ContentMemory, noContents } from '#server/model/call-contents';
import type { ContentKind } from '#server/model/call-contents';

const limit = 16_384;

/** The stored contents of a value, whose JSON text is first cut to `kept` bytes, as the text of a long value is. */
function stored(kind: ContentKind, value: unknown, limitBytes = limit, kept = Infinity) {
  const whole = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  const bytes = whole.subarray(0, kept);
  return cleanedContents(kind, { bytes, isWhole: bytes.length === whole.length }, limitBytes);
}

describe('arguments and results: secrets that the call was sent with', () => {
  const secret = 'plain-words-without-any-form';
  const keptOf = (value: object, kept = Infinity) => {
    const whole = Buffer.from(JSON.stringify(value));
    const bytes = whole.subarray(0, kept);
    const isWhole = bytes.length === whole.length;
    return cleanedContents('arguments', { bytes, isWhole }, limit, [secret])?.text ?? '';
  };

  test('are not stored, whatever their form', () => {
    const text = keptOf({ a: `It is ${secret}.`, [secret]: [secret] });

    expect(JSON.parse(text)).toEqual({ a: 'It is [redacted].', '[redacted]': ['[redacted]'] });
  });

  test('are not stored in part where the value was cut', () => {
    const value = { a: `It is ${secret}` };
    for (let kept = 12; kept < JSON.stringify(value).length; kept += 1) {
      expect(keptOf(value, kept)).not.toContain('plain');
    }
  });
});

const parsed = (...given: Parameters<typeof stored>): unknown =>
  JSON.parse(stored(...given)?.text ?? 'null');

describe('arguments and results: what is stored', () => {
  test('arguments as they were sent', () => {
    const value = { a: [1, -2.5e3, true, null, { b: 'x "y" \\ \n ü 🔑' }], c: {}, d: [], e: '' };

    expect(stored('arguments', value)).toEqual({ text: JSON.stringify(value), isCut: false });
  });

  test('of a result, only the members that MCP gives to people and models', () => {
    const result = {
      content: [{ type: 'text', text: 'sunny', _meta: { a: 1 } }],
      structuredContent: { sky: 'blue' },
      isError: false,
      requestState: 'state',
      inputRequests: { q: { method: 'elicitation/create' } },
      task: { taskId: 'task_1' },
      taskId: 'task_2',
      nextCursor: 'cursor',
      _meta: { 'io.modelcontextprotocol/related-task': { taskId: 'task_3' } },
      unknownMember: 1,
    };

    expect(parsed('result', result)).toEqual({
      content: [{ type: 'text', text: 'sunny' }],
      structuredContent: { sky: 'blue' },
      isError: false,
    });
  });

  test.each([
    ['a resource', { contents: [{ uri: 'file:///a', text: 'x' }] }],
    ['a prompt', { description: 'd', messages: [{ role: 'user', content: { text: 'x' } }] }],
    ['an error', { code: -32602, message: 'no such tool', data: { tool: 'x' } }],
  ])('of %s, everything', (_, value) => {
    expect(parsed('result', value)).toEqual(value);
  });

  test('nothing of a result that has none of these members', () => {
    expect(stored('result', { task: { taskId: 't' }, requestState: 's' })).toBeUndefined();
    expect(stored('arguments', {})).toBeUndefined();
  });

  test.each(['_meta', 'requestState', 'inputResponses', 'inputRequests'])(
    'never %s, however deep',
    (name) => {
      const value = { a: [{ [name]: { b: ['x'] }, c: 1 }], [name]: 'y' };

      expect(parsed('arguments', value)).toEqual({ a: [{ c: 1 }] });
    },
  );

  test('a name with escapes is the same name', () => {
    expect(parsed('arguments', '{"a":1,"request\\u0053tate":"x","\\u0074oken":"y"}')).toEqual({
      a: 1,
      token: '[redacted]',
    });
  });

  test('an image is stored as its length', () => {
    const data = Buffer.from('Bytes of an image 123 '.repeat(100)).toString('base64');
    const result = { content: [{ type: 'image', data, mimeType: 'image/png' }] };

    expect(parsed('result', result)).toEqual({
      content: [
        { type: 'image', data: `[base64, ${data.length} characters]`, mimeType: 'image/png' },
      ],
    });
  });
});

describe('arguments and results: secrets', () => {
  test.each([
    'password',
    'Passwd',
    'client_secret',
    'accessToken',
    'refresh-token',
    'id_token',
    'api_key',
    'X-Api-Key',
    'Authorization',
    'Set-Cookie',
    'privateKey',
    'client_assertion',
  ])('the value of %s is redacted, whatever it is', (name) => {
    const value = { [name]: 'hunter2', in: [{ [name]: { a: 'b' } }, { [name]: 4711 }] };

    expect(parsed('arguments', value)).toEqual({
      [name]: '[redacted]',
      in: [{ [name]: '[redacted]' }, { [name]: '[redacted]' }],
    });
  });

  test('names that only resemble them stay', () => {
    const value = { maxTokens: 5, token_count: 'x', passwordless: 'y', keyword: 'z', token: true };

    expect(parsed('arguments', value)).toEqual(value);
  });

  test('known forms are redacted in texts and names, also behind escapes', () => {
    const jwt = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl';
    const text = String.raw`{"note":"a\n${jwt} b","\u0067hp_abcdefghijklmnopqrst":"postgres:\/\/a:b@c"}`;

    expect(parsed('arguments', text)).toEqual({
      note: 'a\n[redacted] b',
      'ghp_[redacted]': 'postgres://a:[redacted]@c',
    });
  });

  test('JSON within a text is redacted by its names, too', () => {
    const inside = JSON.stringify({ user: 'dana', password: 'hunter "2"', token: 'x' }, null, 2);

    expect(parsed('result', { content: [{ text: inside }] })).toEqual({
      content: [
        { text: inside.replace('"hunter \\"2\\""', '"[redacted]"').replace('"x"', '"[redacted]"') },
      ],
    });
  });

  test('a secret at the limit is recognized before it is cut', () => {
    const key = `-----BEGIN PRIVATE KEY-----\n${'MIIEvQIBADANBgkqhkiG9w0B\n'.repeat(60)}-----END PRIVATE KEY-----`;
    const found = stored('arguments', { text: `${'x'.repeat(280)}${key}` }, 330);

    expect(found?.text).toContain('[redacted private key]');
    expect(found?.text).not.toContain('MIIE');
  });
});

describe('arguments and results: the limit', () => {
  test('what is longer ends with an ellipsis, and stays JSON', () => {
    const found = stored('arguments', { a: 'x'.repeat(300), b: 1 }, 100);

    expect(found?.isCut).toBe(true);
    expect(JSON.parse(found?.text ?? '')).toEqual({ a: `${'x'.repeat(89)}…` });
    expect(Buffer.byteLength(found?.text ?? '')).toBe(100);
  });

  test('a long value costs no more than the limit', () => {
    const found = stored('arguments', { a: ['\\"🔑'.repeat(1_000_000)] }, 256);

    expect(Buffer.byteLength(found?.text ?? '')).toBeLessThanOrEqual(256);
  });

  test('any value, cut anywhere, is JSON within the limit, and holds nothing that is never stored', () => {
    const values = tuple(jsonValue({ maxDepth: 5 }), string({ unit: 'grapheme', maxLength: 60 }));
    assert(
      property(values, integer({ min: 0, max: 400 }), integer({ min: 0, max: 300 }), (...given) => {
        const [[value, text], kept, most] = given;
        const whole = { a: value, password: text, list: [text, { requestState: text, b: value }] };
        for (const json of [JSON.stringify(whole), JSON.stringify(whole, null, 1)]) {
          const found = stored('arguments', json, most, kept);
          if (!found) continue;
          expect(Buffer.byteLength(found.text)).toBeLessThanOrEqual(most);
          const read: unknown = JSON.parse(found.text);
          expect(JSON.stringify(read)).not.toMatch(/requestState":|password":"(?!\[redacted\])/);
        }
      }),
      { numRuns: 2000, seed: 126 },
    );
  });

  test('a value that fits is stored whole', () => {
    assert(
      property(jsonValue({ maxDepth: 4 }), (value) => {
        expect(parsed('arguments', { a: [value] })).toEqual(
          JSON.parse(JSON.stringify({ a: [value] })),
        );
      }),
      { numRuns: 500, seed: 126 },
    );
  });
});

describe('arguments and results: their memory until they are written', () => {
  const settings = { ...noContents, arguments: true, limitBytes: 256 };
  const span = (message: Buffer) => ({ start: 0, end: message.length });

  test('is that of the beginning, not of the message', () => {
    const memory = new ContentMemory();
    const contents = new CallContents('target', settings, memory);
    const message = Buffer.alloc(1_000_000, 'x');
    contents.keep('arguments', message, span(message));
    const [[, kept] = []] = contents.values;

    expect(kept?.isWhole).toBe(false);
    expect(kept?.bytes.buffer.byteLength).toBe(2 * 256 + 16_384);
    expect(memory.heldBytes).toBe(kept?.bytes.length);
    contents.letGo();
    contents.letGo();
    expect(memory.heldBytes).toBe(0);
  });

  test('is bounded: what finds no room is not kept, and counted', () => {
    const memory = new ContentMemory(150);
    const message = Buffer.alloc(100, 'x');
    const [first, second] = [settings, settings].map(
      (one) => new CallContents('target', one, memory),
    );
    first?.keep('arguments', message, span(message));
    second?.keep('arguments', message, span(message));

    expect([first?.values.length, second?.values.length, memory.refused]).toEqual([1, 0, 1]);
    first?.letGo();
    second?.keep('arguments', message, span(message));
    expect(second?.values).toHaveLength(1);
  });
});
