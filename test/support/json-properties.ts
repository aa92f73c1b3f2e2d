// Properties of JSON texts of every kind, checked against a second reader, which is written from RFC 8259 for the tests alone.
import { isUtf8 } from 'node:buffer';
import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { JsonError, jsonMembers, strictJson, wanted } from '#mcp/json';
import { elementsIn, memberEdits, membersIn, replaced, withMembers } from '#mcp/json-edit';
import { scanMessage, withId, withMeta } from '#mcp/message';
import { MessageError, readMessage } from '#mcp/raw-message';
import { TopLevelMembers } from '#mcp/top-level-members';
import { chunked, cuts, ensure, type Property } from './properties.ts';

/** A value in a text: `start` and `end` are offsets in characters. */
interface Value {
  readonly start: number;
  readonly end: number;
  readonly depth: number;
  readonly members?: readonly (readonly [name: string, value: Value])[];
  readonly elements?: readonly Value[];
  /** Whether a string or name in the value has an escape for half a surrogate pair. */
  readonly hasLoneSurrogate: boolean;
}

const tokens = {
  blank: /[ \t\n\r]*/y,
  // oxlint-disable-next-line no-control-regex
  string: /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y,
  word: /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y,
};

/** `undefined` for a text that is not JSON. RFC 8259 */
function referenceJson(text: string): Value | undefined {
  let at = 0;
  const take = (kind: keyof typeof tokens) => {
    const token = tokens[kind];
    token.lastIndex = at;
    const taken = token.exec(text)?.[0];
    at += taken?.length ?? 0;
    return taken;
  };
  const takeMark = (mark: string) => {
    take('blank');
    if (text[at] !== mark) return false;
    at += 1;
    return true;
  };
  const isLone = (string: string) => !String(JSON.parse(string)).isWellFormed();

  function list<Item>(close: string, item: () => Item | undefined): Item[] | undefined {
    const items: Item[] = [];
    if (takeMark(close)) return items;
    for (;;) {
      const next = item();
      if (next === undefined) return undefined;
      items.push(next);
      if (takeMark(close)) return items;
      if (!takeMark(',')) return undefined;
    }
  }

  function member(): readonly [string, Value, boolean] | undefined {
    take('blank');
    const name = take('string');
    if (name === undefined || !takeMark(':')) return undefined;
    const inside = value();
    return inside && [String(JSON.parse(name)), inside, isLone(name)];
  }

  function value(): Value | undefined {
    take('blank');
    const start = at;
    if (takeMark('{')) {
      const all = list('}', member);
      if (!all) return undefined;
      const depth = 1 + Math.max(0, ...all.map(([, inside]) => inside.depth));
      const hasLoneSurrogate = all.some(([, inside, lone]) => lone || inside.hasLoneSurrogate);
      const members = all.map(([name, inside]) => [name, inside] as const);
      return { start, end: at, depth, members, hasLoneSurrogate };
    }
    if (takeMark('[')) {
      const elements = list(']', value);
      if (!elements) return undefined;
      const depth = 1 + Math.max(0, ...elements.map((inside) => inside.depth));
      const hasLoneSurrogate = elements.some((inside) => inside.hasLoneSurrogate);
      return { start, end: at, depth, elements, hasLoneSurrogate };
    }
    const string = take('string');
    if (string === undefined && take('word') === undefined) return undefined;
    return {
      start,
      end: at,
      depth: 0,
      hasLoneSurrogate: string !== undefined && isLone(string),
    };
  }

  const whole = value();
  take('blank');
  return at === text.length ? whole : undefined;
}

const names = [
  'a',
  'b',
  'id',
  'ID',
  'method',
  'm\\u0065thod',
  '\\u0061',
  'é',
  '__proto__',
  '😀',
  '',
];
const texts = [
  '',
  'x',
  'é',
  '😀',
  '\\n',
  '\\u00e9',
  '\\ud83d\\ude00',
  '\\ud800',
  '\\"',
  '\\\\',
  '}',
  ':,',
];
const words = [
  '0',
  '-0',
  '1',
  '1.50',
  '1e400',
  '12345678901234567890',
  '-1E-2',
  'true',
  'false',
  'null',
];
const wrongWords = [
  '',
  '1.',
  '.5',
  '01',
  '1e',
  '1e+',
  '-',
  '+1',
  '0x1',
  'tru',
  'True',
  'nulll',
  'NaN',
];
const wrongTexts = [
  '\u001f',
  '\n',
  '\t',
  '\0',
  '\\x',
  '\\u12',
  '\\u00g0',
  '\\U0041',
  '\\ud83d\\u0041',
  '\\udc00',
];
const blanks = ['', '', '', '', ' ', '\n', '\r\n\t'];
const junk = [
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '"',
  '\\',
  '-',
  '.',
  'e',
  '01',
  '+1',
  'nul',
  '\0',
  '\u001f',
  '\ufeff',
  '"a":1,',
  '\\u12',
  '//',
];

const blank = fc.constantFrom(...blanks);
const name = fc.constantFrom(...names);

/** JSON texts in many spellings, made of these words and parts of strings; some have a member named twice. */
const jsonTexts = (someWords: readonly string[], someTexts: readonly string[]) =>
  fc.letrec<{ value: string; object: string; array: string }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, depthSize: 'small' },
      fc.constantFrom(...someWords),
      fc
        .array(fc.constantFrom(...someTexts), { maxLength: 3 })
        .map((parts) => `"${parts.join('')}"`),
      tie('array'),
      tie('object'),
    ),
    array: fc
      .tuple(fc.array(fc.tuple(blank, tie('value'), blank), { maxLength: 3 }), blank)
      .map(([items, inside]) =>
        items.length === 0 ? `[${inside}]` : `[${items.map((item) => item.join('')).join(',')}]`,
      ),
    object: fc
      .tuple(
        fc.array(fc.tuple(blank, name, blank, blank, tie('value'), blank), { maxLength: 4 }),
        blank,
      )
      .map(([members, inside]) =>
        members.length === 0
          ? `{${inside}}`
          : `{${members.map(([a, key, b, c, value, d]) => `${a}"${key}"${b}:${c}${value}${d}`).join(',')}}`,
      ),
  }));
const { value: jsonText, object: objectText } = jsonTexts(words, texts);
const nearly = jsonTexts([...words, ...words, ...wrongWords], [...texts, ...texts, ...wrongTexts]);

const edit = fc.record({
  at: fc.nat(200),
  drop: fc.nat(2),
  insert: fc.oneof(
    fc.constantFrom(...junk, '').map((text) => Buffer.from(text)),
    fc.integer({ min: 0, max: 255 }).map((byte) => Buffer.from([byte])),
  ),
});

/** JSON texts, most of them damaged. */
const someBytes = fc
  .tuple(
    blank,
    fc.oneof(jsonText, objectText, nearly.value, nearly.object),
    blank,
    fc.oneof(fc.constant([]), fc.array(edit, { maxLength: 3 })),
  )
  .map(([before, text, after, edits]) => {
    let bytes = Buffer.from(before + text + after);
    for (const { at, drop, insert } of edits) {
      const from = at % (bytes.length + 1);
      bytes = Buffer.concat([bytes.subarray(0, from), insert, bytes.subarray(from + drop)]);
    }
    return bytes;
  });

/** Reads bytes with the reference, which must agree with `JSON.parse` on what is JSON. */
function reference(bytes: Buffer): { text: string; tree: Value } | undefined {
  const text = bytes.toString();
  const tree = isUtf8(bytes) ? referenceJson(text) : undefined;
  let parses = isUtf8(bytes);
  try {
    JSON.parse(text);
  } catch {
    parses = false;
  }
  ensure(parses === (tree !== undefined), 'the reference differs from JSON.parse');
  return tree && { text, tree };
}

/** The offsets of a value in bytes, from those in characters. */
const spanOf = (text: string, { start, end }: Value) => ({
  start: Buffer.byteLength(text.slice(0, start)),
  end: Buffer.byteLength(text.slice(0, end)),
});

const isTwice = (value: Value) =>
  value.members !== undefined &&
  new Set(value.members.map(([key]) => key)).size < value.members.length;

const everyValue = (value: Value): Value[] => [
  value,
  ...(value.members ?? []).flatMap(([, inside]) => everyValue(inside)),
  ...(value.elements ?? []).flatMap(everyValue),
];

const shape = wanted({
  id: { place: 'id' },
  method: { place: 'method', inside: wanted({ a: { place: 'inner' } }) },
});
const wantedNames = ['id', 'method'];

function hasOtherCase({ members = [] }: Value, known: readonly string[]): boolean {
  return members.some(([key]) => !known.includes(key) && known.includes(key.toLowerCase()));
}

export const jsonProperties: Record<string, Property> = {
  'the strict scan accepts what is JSON and read alike by every parser, and locates members':
    fc.property(someBytes, (bytes) => {
      const read = reference(bytes);
      const scan = strictJson(bytes, shape);
      const all = read ? everyValue(read.tree) : [];
      const inner = read?.tree.members?.find(([key]) => key === 'method')?.[1];
      const isAmbiguous =
        all.some(
          (value) => isTwice(value) || value.members?.some(([key]) => key === '__proto__'),
        ) ||
        (read !== undefined && hasOtherCase(read.tree, wantedNames)) ||
        (inner !== undefined && hasOtherCase(inner, ['a']));
      const accepts = read !== undefined && !read.tree.hasLoneSurrogate && !isAmbiguous;
      ensure((scan.outcome === 'json') === accepts, `the scan says ${JSON.stringify(scan)}`);
      if (scan.outcome === 'refused') {
        if (read && !read.tree.hasLoneSurrogate) ensure(scan.why === 'not allowed', scan.reason);
        if (!read) ensure(scan.why === 'not JSON', scan.reason);
        return;
      }
      if (!read) return;
      const place = (of: Value | undefined, key: string) => {
        const found = of?.members?.find(([known]) => known === key)?.[1];
        return found && spanOf(read.text, found);
      };
      const found = {
        id: place(read.tree, 'id'),
        method: place(read.tree, 'method'),
        inner: place(inner, 'a'),
      };
      ensure(
        isDeepStrictEqual(
          { id: undefined, method: undefined, inner: undefined, ...scan.found },
          found,
        ),
        'it finds others',
      );
      ensure(isDeepStrictEqual(scan.root, spanOf(read.text, read.tree)), 'the root is elsewhere');
    }),

  'the members of an object are those of JSON.parse, each with its own bytes': fc.property(
    someBytes,
    (bytes) => {
      const read = reference(bytes);
      let members: ReturnType<typeof jsonMembers>;
      try {
        members = jsonMembers(bytes);
      } catch (error) {
        ensure(error instanceof JsonError, String(error));
        ensure(!read || isTwice(read.tree), 'it refuses JSON');
        return;
      }
      if (!read) throw new Error('it accepts what is not JSON');
      ensure(!isTwice(read.tree), 'it accepts a member named twice');
      const expected = read.tree.members?.map(([key, value]) => [key, spanOf(read.text, value)]);
      ensure(isDeepStrictEqual(members && [...members], expected), 'other members');
      const whole = spanOf(read.text, read.tree);
      ensure(isDeepStrictEqual([...membersIn(bytes, whole)], expected ?? []), 'other in place');
      const elements = read.tree.elements?.map((value) => spanOf(read.text, value));
      ensure(isDeepStrictEqual(elementsIn(bytes, whole), elements), 'other elements');
    },
  ),

  'an object is edited where it should be, and every other byte stays': fc.property(
    fc.tuple(blank, objectText, blank).map((parts) => Buffer.from(parts.join(''))),
    fc.dictionary(fc.constantFrom('a', 'b', 'é', 'new', 'id'), jsonText, { maxKeys: 3 }),
    fc.constantFrom('a', 'b', 'other'),
    (bytes, values, removed) => {
      const read = reference(bytes);
      if (!read || isTwice(read.tree)) return;
      const whole = spanOf(read.text, read.tree);
      const before = [...membersIn(bytes, whole)];
      const textOf = (body: Buffer) =>
        new Map(
          [...membersIn(body, { start: body.indexOf('{'), end: body.length })].map(
            ([key, { start, end }]) => [key, body.toString('utf8', start, end)],
          ),
        );
      const expected = new Map(
        before.map(([key, { start, end }]) => [key, bytes.toString('utf8', start, end)]),
      );
      for (const [key, text] of Object.entries(values)) expected.set(key, text);
      const edited = replaced(bytes, memberEdits(bytes, whole, values));
      ensure(referenceJson(edited.toString()) !== undefined, `no JSON: ${edited.toString()}`);
      const sorted = (map: ReadonlyMap<string, string>) =>
        [...map].map((entry) => entry.join(':')).toSorted();
      ensure(
        isDeepStrictEqual(sorted(textOf(edited)), sorted(expected)),
        `edited: ${edited.toString()}`,
      );
      const undone = [...expected].filter(([key]) => key !== removed || key in values);
      const made = withMembers(bytes, whole, { [removed]: undefined, ...values });
      ensure(
        isDeepStrictEqual(sorted(textOf(made)), sorted(new Map(undone))),
        `made: ${made.toString()}`,
      );
    },
  ),

  'a message gets another id or more metadata, and every other byte stays': fc.property(
    fc.record({
      id: fc.constantFrom('1', '"é"', '12345678901234567890', '1.0'),
      params: fc.option(objectText, { nil: undefined }),
      gap: blank,
      added: fc.dictionary(
        fc.constantFrom(
          'a',
          'b',
          'x/y',
          'progressToken',
          'io.modelcontextprotocol/protocolVersion',
        ),
        jsonText,
        { maxKeys: 3 },
      ),
    }),
    ({ id, params, gap, added }) => {
      const rest = params === undefined ? '' : `,${gap}"params"${gap}:${params}`;
      const text = (of: string) =>
        `{${gap}"method":"m","jsonrpc":"2.0","id":${gap}${of}${gap}${rest}}`;
      const body = Buffer.from(text(id));
      const scan = scanMessage(body);
      const relayed = relayedOrRefused(body);
      if (scan.outcome === 'refused') return;
      ensure(relayed !== undefined, 'the strict scan accepts what the proxy refuses');
      ensure(relayed?.id === scan.envelope.id, 'the readers disagree about the id');
      ensure(relayed?.kind === scan.envelope.kind, 'the readers disagree about the kind');
      const other = withId({ body, envelope: scan.envelope }, '"other"');
      ensure(other.body.equals(Buffer.from(text('"other"'))), 'another id');
      ensure(
        isDeepStrictEqual(scanMessage(other.body), {
          outcome: 'message',
          envelope: other.envelope,
        }),
        'with another id, the members are elsewhere',
      );
      const { body: edited, envelope } = withMeta({ body, envelope: scan.envelope }, added);
      const scanned = scanMessage(edited);
      ensure(
        scanned.outcome === 'refused' || isDeepStrictEqual(scanned.envelope, envelope),
        'with more metadata, the members are elsewhere',
      );
      const given = JSON.parse(body.toString());
      const meta: object = given.params?._meta ?? {};
      const fresh = Object.entries(added).filter(([key]) => !Object.hasOwn(meta, key));
      if (fresh.length === 0) return ensure(edited.equals(body), 'changed without need');
      const more = fresh.map(([key, json]): [string, unknown] => [key, JSON.parse(json)]);
      given.params = { ...given.params, _meta: { ...meta, ...Object.fromEntries(more) } };
      ensure(
        isDeepStrictEqual(JSON.parse(edited.toString()), given),
        `edited: ${edited.toString()}`,
      );
    },
  ),

  'the members of a streamed object are the same however it is cut': fc.property(
    someBytes,
    cuts,
    (bytes, at) => {
      const read = reference(bytes);
      const seen = (chunks: readonly Buffer[]) => {
        const members = new TopLevelMembers();
        for (const chunk of chunks) members.push(chunk);
        const { hasResult, ids, isComplete, isBroken } = members;
        return { hasResult, ids, isComplete, isBroken };
      };
      const whole = seen([bytes]);
      ensure(isDeepStrictEqual(seen(chunked(bytes, at)), whole), 'cut, it reads another');
      if (!read?.tree.members) return;
      const { members } = read.tree;
      const folded = members.map(([key]) => key.toLowerCase());
      const ids = members.filter((_, index) => folded[index] === 'id').map(([, value]) => value);
      ensure(whole.hasResult === folded.includes('result'), 'whether there is a result');
      ensure(whole.isComplete && !whole.isBroken, 'an object is complete');
      ensure(whole.ids.length === Math.min(ids.length, 2), `ids ${whole.ids.join()}`);
      for (const [index, { start, end, depth }] of ids.slice(0, 2).entries())
        ensure(depth > 0 || whole.ids[index] === read.text.slice(start, end), 'another id');
    },
  ),
};

function relayedOrRefused(body: Buffer): ReturnType<typeof readMessage> | undefined {
  try {
    return readMessage(body);
  } catch (error) {
    if (error instanceof MessageError) return undefined;
    throw error;
  }
}
