import { describe, expect, test } from 'vitest';
import {
  jsonMembers,
  maxMembers,
  maxValues,
  strictJson,
  strictRules,
  wanted,
  type JsonRules,
} from '#mcp/json';

const shape = wanted(
  {
    method: { place: 'method' },
    params: { place: 'params', inside: wanted({ name: { place: 'name' } }) },
  },
  { closed: true },
);
const outermost: JsonRules = { maxDepth: 512, maxBytes: 1000, strictness: 'top-level' };

function read(text: string | Buffer, rules?: JsonRules): string {
  const json = strictJson(Buffer.from(text), shape, rules);
  return json.outcome === 'json' ? 'json' : `${json.why}: ${json.reason}`;
}
const nested = (depth: number) => `{"params":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;

describe('rules of strictness `top-level`', () => {
  test.each([
    ['a member named twice below the outermost object', '{"params":{"name":1,"name":2}}'],
    ['a member named twice in an object nobody asks for', '{"params":{"a":{"b":1,"b":2}}}'],
    ['a lone surrogate', '{"method":"\\ud800"}'],
    ['a member named __proto__', '{"params":{"__proto__":1}}'],
    ['a member that differs from a wanted one in case only', '{"Method":"a","method":"b"}'],
    ['a member that a closed object has no place for', '{"other":1}'],
  ])('pass %s, which the strictest refuse', (_, text) => {
    expect(read(text, outermost)).toBe('json');
    expect(read(text)).not.toBe('json');
  });

  test.each([
    ['a member named twice', '{"method":1,"method":2}', 'not allowed: a member is there twice'],
    ['the same, escaped', '{"method":1,"m\\u0065thod":2}', 'not allowed: a member is there twice'],
    ['invalid UTF-8', Buffer.from([0x22, 0xff, 0x22]), 'not JSON: invalid UTF-8'],
    ['data after the text', '{} x', 'not JSON: data after the JSON text'],
    ['an unknown escape', '"\\x"', 'not JSON: not JSON at byte 0'],
  ])('refuse %s', (_, text, reason) => {
    expect(read(text, outermost)).toBe(reason);
  });

  test('find requested members of objects', () => {
    const json = strictJson(Buffer.from('{"params":{"name":"x"}}'), shape, outermost);

    expect(json).toMatchObject({ outcome: 'json', found: { name: { start: 18, end: 21 } } });
  });
});

test.each([
  [64, strictRules],
  [512, outermost],
] as const)('a text may be nested %i levels deep, and no deeper', (maxDepth, rules) => {
  const whole = { ...rules, maxBytes: Infinity };

  expect(read(nested(maxDepth), whole)).toBe('json');
  expect(read(nested(maxDepth + 1), whole)).toBe(
    `not allowed: nested deeper than ${maxDepth} levels`,
  );
});

test('a text of more bytes than the rules allow is refused', () => {
  expect(read(`"${'x'.repeat(998)}"`, outermost)).toBe('json');
  expect(read(`"${'x'.repeat(999)}"`, outermost)).toBe('not allowed: larger than 1000 bytes');
});

describe('117: a text costs bounded work', () => {
  const names = (count: number) => Array.from({ length: count }, (_, n) => `"${n}":0`).join();
  const small = (count: number) => `{"params":[${'{"a":0},'.repeat(count)}0]}`;

  test('members of all levels are counted, and reading stops at the first beyond the limit', () => {
    const broken = `{"params":{${names(maxMembers)}?`;

    expect(read(`{"params":{${names(maxMembers - 1)}}}`)).toBe('json');
    expect(read(small(maxMembers - 1))).toBe('json');
    expect(read(small(maxMembers))).toBe('not allowed: more than 100000 members');
    expect(read(broken)).toBe('not allowed: more than 100000 members');
  });

  test('so are values', () => {
    const zeros = (count: number) => `{"params":[${'0,'.repeat(count - 1)}0]}`;

    expect(read(zeros(maxValues - 2))).toBe('json');
    expect(read(zeros(maxValues - 1))).toBe('not allowed: more than 1000000 values');
  });

  test('where only the outermost names must differ, only those are counted', () => {
    const whole = { ...outermost, maxBytes: Infinity };
    const outer = Buffer.from(`{${names(maxMembers + 1)}}`);

    expect(read(small(maxMembers), whole)).toBe('json');
    expect(jsonMembers(Buffer.from(`{${names(maxMembers)}}`))?.size).toBe(maxMembers);
    expect(() => jsonMembers(outer)).toThrow('more than 100000 members');
  });
});

describe('a long string', () => {
  const parts = [
    '\x00',
    '\x1f',
    '\n',
    '\x7f',
    ' ',
    '!',
    '#',
    '[',
    '€',
    '\\n',
    '\\"',
    '\\u00e9',
    '\\x',
    '"',
  ];

  test.each(parts.map((part) => [JSON.stringify(part), part]))(
    'with %s anywhere in it ends where JSON.parse says, wherever it begins in memory',
    (_, part) => {
      for (let before = 125; before < 141; before += 1)
        for (let offset = 0; offset < 4; offset += 1) {
          const text = `{"a":"${'x'.repeat(before)}${part}${'y'.repeat(9)}","b":1}`;
          const bytes = at(offset, text);

          expect(membersOf(bytes), `${before}, ${offset}`).toEqual(parsed(text));
        }
    },
  );

  test('without an end is not JSON, wherever it begins in memory', () => {
    for (let length = 125; length < 141; length += 1)
      for (let offset = 0; offset < 4; offset += 1)
        expect(membersOf(at(offset, `{"a":"${'x'.repeat(length)}`))).toBe('not JSON');
  });

  /** The text at this distance from the beginning of its memory, with a quote behind it. */
  function at(offset: number, text: string): Buffer {
    const memory = Buffer.from(`${' '.repeat(offset)}${text}""`);
    return memory.subarray(offset, -2);
  }

  function membersOf(bytes: Buffer): unknown {
    try {
      const members = jsonMembers(bytes) ?? new Map();
      return Object.fromEntries(
        [...members].map(([name, { start, end }]) => [
          name,
          JSON.parse(bytes.toString('utf8', start, end)),
        ]),
      );
    } catch {
      return 'not JSON';
    }
  }

  function parsed(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      return 'not JSON';
    }
  }
});
