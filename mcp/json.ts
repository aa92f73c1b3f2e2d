import { isUtf8 } from 'node:buffer';

/** Bytes `start` (inclusive) to `end` (exclusive) of a body. */
export interface Span {
  start: number;
  end: number;
}

/**
 * The members of an object to locate, by name, and those of nested objects. A name that a lenient parser would take
 * for one of these, such as `Method` or a name with a letter that folds to ASCII, is refused, because we would ignore
 * it and the upstream would not.
 */
export interface Wanted<Place extends string> {
  /** Whether other members are refused. */
  closed: boolean;
  members: ReadonlyMap<string, Member<Place>>;
  /** The names in lower case. */
  folded: ReadonlySet<string>;
}

interface Member<Place extends string> {
  place: Place;
  inside?: Wanted<Place>;
}

export function wanted<Place extends string>(
  members: Record<string, Member<Place>>,
  { closed = false } = {},
): Wanted<Place> {
  const names = Object.keys(members).map((name) => name.toLowerCase());
  return { closed, members: new Map(Object.entries(members)), folded: new Set(names) };
}

export type StrictJson<Place extends string> =
  /** `text` is the body with one character per byte. */
  { outcome: 'json'; text: string; root: Span; found: Partial<Record<Place, Span>> } | Refused;

/** `at` is the byte where the scan stopped; absent if the whole text was scanned, or if it is too long to scan. */
type Refused = {
  outcome: 'refused';
  why: 'not JSON' | 'not allowed';
  reason: string;
  at?: number;
};

interface Frame<Place extends string> {
  start: number;
  close: number;
  names: string[];
  manyNames: Set<string> | undefined;
  inside: Wanted<Place> | undefined;
  member: Member<Place> | undefined;
}

/** The rules that a text must follow besides being valid JSON. */
export interface JsonRules {
  /** Maximum nesting of objects and arrays. */
  readonly maxDepth: number;
  /** The longest text in bytes. A longer one is refused without reading it. */
  readonly maxBytes: number;
  /**
   * `every-level` refuses everything that two parsers could read differently: duplicate members in any object, lone
   * surrogates, `__proto__`, names that differ from a wanted one only in case, and unknown members of a closed
   * object. `top-level` refuses only duplicate members of the outermost object.
   */
  readonly strictness: 'every-level' | 'top-level';
}

/** For messages that are checked here before another parser reads the same bytes. */
export const strictRules: JsonRules = {
  maxDepth: 64,
  maxBytes: Infinity,
  strictness: 'every-level',
};

/** For messages that are forwarded unchanged to a single reader. `jsonMembers` applies these rules. */
const relayRules: JsonRules = {
  maxDepth: 512,
  maxBytes: Infinity,
  strictness: 'top-level',
};

/**
 * The largest number of members, in all objects of a text together, whose names must be compared. Each comparison costs
 * time and memory.
 */
export const maxMembers = 100_000;
/** The largest number of values of a text, at all levels: strings, numbers, objects, arrays and so on. */
export const maxValues = 1_000_000;

const fewNames = 8;
const [quote, comma, colon, openBrace, closeBrace, openBracket, closeBracket] = [
  0x22, 0x2c, 0x3a, 0x7b, 0x7d, 0x5b, 0x5d,
];

/**
 * Scans a JSON text in one pass without building its value, and locates the wanted members. Besides invalid JSON it
 * refuses invalid UTF-8, a byte order mark, what `rules` forbid, and more than `maxMembers` members whose names must
 * differ. With `every-level`, it also refuses any text that two parsers could read as different messages, or that has
 * more than `maxValues` values. Names are compared after decoding.
 *
 * RFC 8259 §4, §8.1, §9; RFC 7493 §2
 */
export function strictJson<Place extends string>(
  body: Uint8Array,
  shape: Wanted<Place>,
  rules: JsonRules = strictRules,
): StrictJson<Place> {
  const { maxBytes } = rules;
  if (body.length > maxBytes) return refused('not allowed', `larger than ${maxBytes} bytes`);
  if (!isUtf8(body)) return refused('not JSON', 'invalid UTF-8', 0);
  // Slicing a string is cheaper than slicing a buffer, and offsets are the same in both.
  const text = buffer(body).toString('latin1');
  const scan = scanJson(body, { start: 0, end: body.length }, rules, { text, shape });
  return scan.outcome === 'refused' ? scan : { ...scan, text };
}

/** The bytes are not JSON, or the object has a member twice or too many members. */
export class JsonError extends Error {
  override readonly name = 'JsonError';
  /** The offending byte. */
  readonly at: number;

  constructor(at: number, reason = 'not JSON') {
    super(reason.includes('at byte') ? reason : `${reason}, at byte ${at}`);
    this.at = at;
  }
}

/**
 * Locates all members of the object in `bytes`, or at `span` in them, by decoded name, and checks the whole object
 * against `relayRules`. No values are built: numbers keep their digits and strings their escapes.
 *
 * @returns `undefined` if the value is not an object
 * @throws {JsonError}
 */
export function jsonMembers(bytes: Uint8Array, span?: Span): Map<string, Span> | undefined {
  // A span needs no check, because the whole text was checked before.
  if (!span && !isUtf8(bytes)) throw new JsonError(0);
  const members = new Map<string, Span>();
  const whole = span ?? { start: 0, end: bytes.length };
  const scan = scanJson(bytes, whole, relayRules, { members });
  if (scan.outcome === 'refused') throw new JsonError(scan.at ?? 0, scan.reason);
  return bytes[scan.root.start] === openBrace ? members : undefined;
}

/** The members that a scan locates: those of a shape, or all members of the outermost object. */
interface Located<Place extends string> {
  /** The body with one character per byte; needed for a shape or with `every-level`. */
  readonly text?: string;
  readonly shape?: Wanted<Place>;
  readonly members?: Map<string, Span>;
}

type Scan<Place extends string> =
  | { outcome: 'json'; root: Span; found: Partial<Record<Place, Span>> }
  | Refused;

function scanJson<Place extends string>(
  body: Uint8Array,
  span: Span,
  { maxDepth, strictness }: JsonRules,
  { text = '', shape, members }: Located<Place>,
): Scan<Place> {
  const isStrict = strictness === 'every-level';
  const frames: Frame<Place>[] = [];
  const found: Partial<Record<Place, Span>> = {};
  let frame: Frame<Place> | undefined;
  let depth = 0;
  let i = span.start;
  let outerName = '';
  let memberCount = 0;
  let valueCount = 0;
  // Reported at the end, because invalid JSON takes precedence.
  let problem: string | undefined;

  value: for (;;) {
    i = blankEnd(body, i);
    let start = i;
    const first = body[i];
    if (isStrict && ++valueCount > maxValues)
      return refused('not allowed', `more than ${maxValues} values`, i);
    const opens = first === openBrace || first === openBracket;
    if (opens) {
      if (depth === maxDepth)
        return refused('not allowed', `nested deeper than ${maxDepth} levels`, i);
      const inside = frame ? frame.member?.inside : shape;
      frame = frames[depth++] ??= newFrame();
      enter(frame, start, first === openBrace ? closeBrace : closeBracket, inside);
      i = blankEnd(body, i + 1);
    } else {
      i = first === quote ? stringEnd(body, i, isStrict) : wordEnd(body, i);
      if (i < 0) return notJson(start, i);
    }

    for (let fresh = opens; ; fresh = false) {
      if (!frame) break value;
      if (!fresh) {
        if (frame.member) found[frame.member.place] = { start, end: i };
        else if (members && depth === 1) members.set(outerName, { start, end: i });
      }
      i = blankEnd(body, i);
      const next = body[i];
      if (next === frame.close) {
        start = frame.start;
        i++;
        frame = frames[--depth - 1];
        continue;
      }
      if (!fresh) {
        if (next !== comma) return notJson(i);
        i = blankEnd(body, i + 1);
      }
      if (frame.close === closeBracket) continue value;

      const end = body[i] === quote ? stringEnd(body, i, isStrict) : ~i;
      if (end < 0) return notJson(i, end);
      if ((isStrict || depth === 1) && ++memberCount > maxMembers)
        return refused('not allowed', `more than ${maxMembers} members`, i);
      if (isStrict || frame.inside) {
        const name = nameOf(text, i, end);
        problem ??= admit(frame, name, { isStrict, isUnique: isStrict || depth === 1 });
      } else if (members && depth === 1) {
        outerName = memberName(body, i, end);
        if (members.has(outerName)) return refused('not allowed', 'a member is there twice', i);
      }
      i = blankEnd(body, end);
      if (body[i] !== colon) return notJson(i);
      i++;
      continue value;
    }
  }

  const end = i;
  // At the end of the span, `blankEnd` would skip whitespace that is outside the span.
  if (end !== span.end && blankEnd(body, end) !== span.end)
    return refused('not JSON', 'data after the JSON text', end);
  if (problem) return refused('not allowed', problem);
  return { outcome: 'json', root: { start: blankEnd(body, span.start), end }, found };
}

function refused(why: Refused['why'], reason: string, at?: number): Refused {
  return { outcome: 'refused', why, reason, ...(at !== undefined && { at }) };
}

/** `end` is what `stringEnd` or `wordEnd` returned for the token at `start`. */
function notJson(start: number, end = ~start): Refused {
  return end === loneSurrogate
    ? refused('not JSON', 'a lone surrogate is escaped', start)
    : refused('not JSON', `not JSON at byte ${start}`, ~end);
}

function buffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function newFrame<Place extends string>(): Frame<Place> {
  return {
    start: 0,
    close: 0,
    names: [],
    manyNames: undefined,
    inside: undefined,
    member: undefined,
  };
}

/** Frames are reused at the same depth, so a body with a hundred thousand small objects allocates few. */
function enter<Place extends string>(
  frame: Frame<Place>,
  start: number,
  close: number,
  inside: Wanted<Place> | undefined,
): void {
  frame.start = start;
  frame.close = close;
  if (frame.names.length > 0) frame.names.length = 0;
  frame.manyNames = undefined;
  frame.inside = close === closeBrace ? inside : undefined;
  frame.member = undefined;
}

/**
 * A member's name in UTF-8, one character per byte, after a quote. The quote keeps V8 from treating `"123"` as an
 * array index, whose hash an attacker can predict.
 */
function nameOf(text: string, start: number, end: number): string {
  const name = text.slice(start, end - 1);
  if (!name.includes('\\')) return name;
  const decoded: unknown = JSON.parse(`${Buffer.from(name, 'latin1').toString()}"`);
  return `"${Buffer.from(String(decoded)).toString('latin1')}`;
}

/** The names in nearly every message, by their length with quotes. They are compared as bytes, without decoding. */
const usualNames = new Map(
  Map.groupBy(
    ['jsonrpc', 'id', 'method', 'params', 'result', 'error', 'name', 'arguments'].map((name) => ({
      name,
      quoted: Buffer.from(JSON.stringify(name)),
    })),
    ({ quoted }) => quoted.length,
  ),
);

/** The decoded name between the quotes at `start` and before `end`. */
function memberName(bytes: Uint8Array, start: number, end: number): string {
  for (const { name, quoted } of usualNames.get(end - start) ?? []) {
    let at = 1;
    while (at < quoted.length && bytes[start + at] === quoted[at]) at++;
    if (at === quoted.length) return name;
  }
  const name = buffer(bytes).toString('latin1', start + 1, end - 1);
  // oxlint-disable-next-line no-control-regex
  if (!/[\\\x80-\xff]/.test(name)) return name;
  return String(JSON.parse(buffer(bytes).toString('utf8', start, end)));
}

function admit<Place extends string>(
  frame: Frame<Place>,
  name: string,
  { isStrict, isUnique }: { readonly isStrict: boolean; readonly isUnique: boolean },
): string | undefined {
  if (isStrict && name === '"__proto__') return 'a member is named "__proto__"';
  const { inside } = frame;
  if (isUnique && !isNewName(frame, name)) return 'a member is there twice';
  if (!inside) return undefined;
  const plain = name.slice(1);
  frame.member = inside.members.get(plain);
  if (frame.member || !isStrict) return undefined;
  if (inside.closed) return 'a member is there that has no place in a JSON-RPC message';
  return inside.folded.has(folded(plain))
    ? 'a member differs from a known one in case only'
    : undefined;
}

function isNewName<Place extends string>(frame: Frame<Place>, name: string): boolean {
  const { names, manyNames } = frame;
  if (manyNames) {
    const before = manyNames.size;
    return manyNames.add(name).size > before;
  }
  if (names.includes(name)) return false;
  names.push(name);
  if (names.length > fewNames) frame.manyNames = new Set(names);
  return true;
}

/** U+017F folds to `s` and U+212A to `k`, as in Go's encoding/json. */
function folded(name: string): string {
  // oxlint-disable-next-line no-control-regex
  if (!/[^\0-\x7f]/.test(name)) return name.toLowerCase();
  return Buffer.from(name, 'latin1').toString().toUpperCase().toLowerCase();
}

const backslash = 0x5c;
const shortEscapes = Buffer.from('"\\/bfnrt');

// To the functions below, bytes past the end are NUL, which occurs in no JSON text. If the text is not JSON, they
// return `~at`, a negative number, where `at` is the offending byte.

/** Returned by `stringEnd` for an escaped surrogate without its other half. */
const loneSurrogate = -0x4000_0000;

/** The end of the whitespace that begins at `at`. RFC 8259 §2 */
export function blankEnd(bytes: Uint8Array, at: number): number {
  for (let i = at; ; i++) {
    const code = bytes[i] ?? 0;
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return i;
  }
}

/**
 * The end of the string whose opening quote is at `at`, after its closing quote. Unless `pairs` is false, escaped
 * surrogates must be paired. RFC 8259 §7
 */
export function stringEnd(bytes: Uint8Array, at: number, pairs = true): number {
  const short = at + shortString;
  for (let i = at + 1; ;) {
    const code = bytes[i] ?? 0;
    if (code === quote) return i + 1;
    if (code < 0x20) return ~i;
    if (code !== backslash) i++;
    else if ((i = escapeEnd(bytes, i, pairs)) < 0) return i;
    if (i > short) return longStringEnd(bytes, i, pairs);
  }
}

/** In longer strings, reading four bytes at a time costs less than reading each byte, in spite of the view that it needs. */
const shortString = 128;

/** Like `stringEnd`, but begins at `from`, inside the string. */
function longStringEnd(bytes: Uint8Array, from: number, pairs: boolean): number {
  const first = -bytes.byteOffset & 3;
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + first, (bytes.length - first) >> 2);
  for (let i = from; ;) {
    if (((i - first) & 3) === 0) {
      let word = (i - first) >> 2;
      while (word < words.length && isPlain(words[word] ?? 0)) word++;
      i = first + word * 4;
    }
    const code = bytes[i] ?? 0;
    if (code === quote) return i + 1;
    if (code < 0x20) return ~i;
    if (code !== backslash) i++;
    else if ((i = escapeEnd(bytes, i, pairs)) < 0) return i;
  }
}

/**
 * Whether four bytes have neither quote, backslash nor control character. A byte `b` is less than `n` if the highest bit of
 * `(b - n) & ~b` is set; exclusive or with 2 puts the quote next to the control characters.
 */
function isPlain(word: number): boolean {
  const low = word ^ 0x02020202;
  const slash = word ^ 0x5c5c5c5c;
  const hits = ((low - 0x21212121) & ~low) | ((slash - 0x01010101) & ~slash);
  return (hits & 0x80808080) === 0;
}

function escapeEnd(bytes: Uint8Array, at: number, pairs: boolean): number {
  const letter = bytes[at + 1] ?? 0;
  if (letter !== 0x75) return shortEscapes.includes(letter) ? at + 2 : ~(at + 1);
  const unit = codeUnit(bytes, at + 2);
  if (unit < 0) return ~(at + 1);
  if (!pairs || unit < 0xd800 || unit > 0xdfff) return at + 6;
  if (unit > 0xdbff || bytes[at + 6] !== backslash || bytes[at + 7] !== 0x75) return loneSurrogate;
  const low = codeUnit(bytes, at + 8);
  if (low < 0) return ~(at + 7);
  return low >= 0xdc00 && low <= 0xdfff ? at + 12 : loneSurrogate;
}

function codeUnit(bytes: Uint8Array, at: number): number {
  let unit = 0;
  for (let i = at; i < at + 4; i++) {
    const code = bytes[i] ?? 0;
    const letter = code | 0x20;
    if (isDigit(code)) unit = unit * 16 + code - 0x30;
    else if (letter >= 0x61 && letter <= 0x66) unit = unit * 16 + letter - 0x57;
    else return -1;
  }
  return unit;
}

/** The end of the number, `true`, `false` or `null` that begins at `at`. RFC 8259 §3, §6 */
export function wordEnd(bytes: Uint8Array, at: number): number {
  switch (bytes[at] ?? 0) {
    case 0x74:
      return spells(bytes, at, 'true');
    case 0x66:
      return spells(bytes, at, 'false');
    case 0x6e:
      return spells(bytes, at, 'null');
    default:
      return numberEnd(bytes, at);
  }
}

function spells(bytes: Uint8Array, at: number, word: string): number {
  for (let i = 1; i < word.length; i++) {
    if (bytes[at + i] !== word.charCodeAt(i)) return ~at;
  }
  return at + word.length;
}

function numberEnd(bytes: Uint8Array, at: number): number {
  let i = (bytes[at] ?? 0) === 0x2d ? at + 1 : at;
  const whole = (bytes[i] ?? 0) === 0x30 ? i + 1 : digitsEnd(bytes, i);
  if (whole === i) return ~i;
  i = whole;
  if ((bytes[i] ?? 0) === 0x2e) {
    const fraction = digitsEnd(bytes, i + 1);
    if (fraction === i + 1) return ~fraction;
    i = fraction;
  }
  if (((bytes[i] ?? 0) | 0x20) !== 0x65) return i;
  const sign = bytes[i + 1] ?? 0;
  const from = sign === 0x2b || sign === 0x2d ? i + 2 : i + 1;
  const exponent = digitsEnd(bytes, from);
  return exponent === from ? ~from : exponent;
}

function digitsEnd(bytes: Uint8Array, at: number): number {
  let i = at;
  while (isDigit(bytes[i] ?? 0)) i++;
  return i;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
