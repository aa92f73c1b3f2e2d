import { isUtf8 } from 'node:buffer';
import { blankEnd, loneSurrogate, stringEnd, wordEnd } from './json-token.ts';

/** Bytes `start` (included) to `end` (not included) of a body. */
export interface Span {
  start: number;
  end: number;
}

/**
 * The members of an object whose places are asked for, by name, and of those that are objects, theirs.
 * A name that a lenient reader would take for one of these, such as `Method` or `method` with an odd
 * letter that folds to an ordinary one, is refused: it would hide from us and not from the upstream.
 */
export interface Wanted<Place extends string> {
  /** No other member may be there. */
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
  /** `text` is the body, one character a byte. */
  | { outcome: 'json'; text: string; root: Span; found: Partial<Record<Place, Span>> }
  | { outcome: 'refused'; why: 'not JSON' | 'not allowed'; reason: string };

interface Frame<Place extends string> {
  start: number;
  close: number;
  names: string[];
  manyNames: Set<string> | undefined;
  inside: Wanted<Place> | undefined;
  member: Member<Place> | undefined;
}

const deepest = 64;
const fewNames = 8;
const [quote, comma, colon, openBrace, closeBrace, openBracket, closeBracket] = [
  0x22, 0x2c, 0x3a, 0x7b, 0x7d, 0x5b, 0x5d,
];

/**
 * Reads one JSON text in one pass, without building its value, and says where the wanted members are.
 * Refused besides what is not RFC 8259: invalid UTF-8, a byte order mark, lone surrogates, members
 * named twice in one object (names compared once decoded) or `__proto__`, more than 64 levels. Two
 * readers of such a text may see two different messages, so none is let through.
 *
 * RFC 8259 §4, §8.1, §9; RFC 7493 §2
 */
export function strictJson<Place extends string>(
  body: Uint8Array,
  shape: Wanted<Place>,
): StrictJson<Place> {
  if (!isUtf8(body)) return refused('not JSON', 'invalid UTF-8');
  // A slice of a string costs less than one of a buffer, and places in both are the same.
  const text = latin1(body);
  const frames: Frame<Place>[] = [];
  const found: Partial<Record<Place, Span>> = {};
  let frame: Frame<Place> | undefined;
  let depth = 0;
  let i = 0;
  // Told at the end only: what is no JSON at all is called that.
  let problem: string | undefined;

  value: for (;;) {
    i = blankEnd(body, i);
    let start = i;
    const first = body[i];
    const opens = first === openBrace || first === openBracket;
    if (opens) {
      if (depth === deepest) return refused('not allowed', `nested deeper than ${deepest} levels`);
      const inside = frame ? frame.member?.inside : shape;
      frame = frames[depth++] ??= newFrame();
      enter(frame, start, first === openBrace ? closeBrace : closeBracket, inside);
      i = blankEnd(body, i + 1);
    } else {
      i = first === quote ? stringEnd(body, i) : wordEnd(body, i);
      if (i === loneSurrogate) return refused('not JSON', 'a lone surrogate is escaped');
      if (i < 0) return refused('not JSON', `not JSON at byte ${start}`);
    }

    for (let fresh = opens; ; fresh = false) {
      if (!fresh && frame?.member) found[frame.member.place] = { start, end: i };
      if (!frame) break value;
      i = blankEnd(body, i);
      const next = body[i];
      if (next === frame.close) {
        start = frame.start;
        i++;
        frame = frames[--depth - 1];
        continue;
      }
      if (!fresh) {
        if (next !== comma) return refused('not JSON', `not JSON at byte ${i}`);
        i = blankEnd(body, i + 1);
      }
      if (frame.close === closeBracket) continue value;

      const end = body[i] === quote ? stringEnd(body, i) : -1;
      if (end === loneSurrogate) return refused('not JSON', 'a lone surrogate is escaped');
      if (end < 0) return refused('not JSON', `not JSON at byte ${i}`);
      problem ??= admit(frame, nameOf(text, i, end));
      i = blankEnd(body, end);
      if (body[i] !== colon) return refused('not JSON', `not JSON at byte ${i}`);
      i++;
      continue value;
    }
  }

  const end = i;
  if (blankEnd(body, end) !== body.length) return refused('not JSON', 'data after the JSON text');
  if (problem) return refused('not allowed', problem);
  return { outcome: 'json', text, root: { start: blankEnd(body, 0), end }, found };
}

function refused(
  why: 'not JSON' | 'not allowed',
  reason: string,
): { outcome: 'refused'; why: 'not JSON' | 'not allowed'; reason: string } {
  return { outcome: 'refused', why, reason };
}

function latin1(body: Uint8Array): string {
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('latin1');
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

/** Frames are used again at the same depth: a body of a hundred thousand small objects makes few. */
function enter<Place extends string>(
  frame: Frame<Place>,
  start: number,
  close: number,
  inside: Wanted<Place> | undefined,
): void {
  frame.start = start;
  frame.close = close;
  frame.names.length = 0;
  frame.manyNames = undefined;
  frame.inside = close === closeBrace ? inside : undefined;
  frame.member = undefined;
}

/**
 * A member's name: its UTF-8, one character a byte, behind a quote. The quote keeps V8 from taking
 * `"123"` for an array index, whose hash an attacker can foresee.
 */
function nameOf(text: string, start: number, end: number): string {
  const name = text.slice(start, end - 1);
  if (!name.includes('\\')) return name;
  const decoded: unknown = JSON.parse(`${Buffer.from(name, 'latin1').toString()}"`);
  return `"${Buffer.from(String(decoded)).toString('latin1')}`;
}

function admit<Place extends string>(frame: Frame<Place>, name: string): string | undefined {
  if (name === '"__proto__') return 'a member is named "__proto__"';
  const { names, inside } = frame;
  if (frame.manyNames) {
    const before = frame.manyNames.size;
    if (frame.manyNames.add(name).size === before) return 'a member is there twice';
  } else {
    if (names.includes(name)) return 'a member is there twice';
    names.push(name);
    if (names.length > fewNames) frame.manyNames = new Set(names);
  }
  if (!inside) return undefined;
  const plain = name.slice(1);
  frame.member = inside.members.get(plain);
  if (frame.member) return undefined;
  if (inside.closed) return 'a member is there that has no place in a JSON-RPC message';
  return inside.folded.has(folded(plain))
    ? 'a member differs from a known one in case only'
    : undefined;
}

/** U+017F folds to `s` and U+212A to `k`, as Go's encoding/json has it. */
function folded(name: string): string {
  // oxlint-disable-next-line no-control-regex
  if (!/[^\0-\x7f]/.test(name)) return name.toLowerCase();
  return Buffer.from(name, 'latin1').toString().toUpperCase().toLowerCase();
}
