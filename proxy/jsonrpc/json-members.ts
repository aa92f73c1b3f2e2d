import { isUtf8 } from 'node:buffer';

/** Where a JSON value stands in its bytes: from `start` up to, but not including, `end`. */
export type Span = { start: number; end: number };

/** The bytes are not JSON (RFC 8259). `at` is the offending byte. */
export class JsonError extends Error {
  override readonly name = 'JsonError';
  readonly at: number;

  constructor(at: number) {
    super(`not JSON at byte ${at}`);
    this.at = at;
  }
}

const maxDepth = 512;
const quote = 0x22;
const backslash = 0x5c;
const literals = new Map([
  [0x74, 'true'],
  [0x66, 'false'],
  [0x6e, 'null'],
]);

/**
 * The members of the JSON object in `bytes`, by name, without making values of them: numbers keep
 * their digits and strings their escapes. Everything inside is checked for being JSON. A name that
 * comes twice is an error, as the next reader may take the other one.
 *
 * @returns `undefined` when `bytes` hold JSON that is no object
 * @throws {JsonError}
 */
export function jsonMembers(
  bytes: Buffer,
  { start, end }: Span = { start: 0, end: bytes.length },
): Map<string, Span> | undefined {
  if (start === 0 && end === bytes.length && !isUtf8(bytes)) throw new JsonError(0);
  const first = skipSpace(bytes, start);
  const members = bytes[first] === 0x7b ? new Map<string, Span>() : undefined;
  const after = skipValue(bytes, first, 0, members);
  // Space behind a value that is part of a longer text is none of its own.
  if (after !== end && skipSpace(bytes, after) !== end) throw new JsonError(after);
  return members;
}

/** Where the JSON value that begins `at` ends. @throws {JsonError} */
export function skipValue(
  bytes: Buffer,
  at: number,
  depth: number,
  members?: Map<string, Span>,
): number {
  if (depth > maxDepth) throw new JsonError(at);
  const byte = bytes[at];
  if (byte === quote) return skipString(bytes, at);
  if (byte === 0x7b) return skipObject(bytes, at, depth, members);
  if (byte === 0x5b) return skipArray(bytes, at, depth);
  const literal = isDigit(byte) ? undefined : literals.get(byte ?? 0);
  if (!literal) return skipNumber(bytes, at);
  if (bytes.toString('latin1', at, at + literal.length) !== literal) throw new JsonError(at);
  return at + literal.length;
}

function skipObject(bytes: Buffer, start: number, depth: number, members?: Map<string, Span>) {
  let at = skipSpace(bytes, start + 1);
  if (bytes[at] === 0x7d) return at + 1;
  for (;;) {
    const name = at;
    if (bytes[at] !== quote) throw new JsonError(at);
    at = skipString(bytes, at);
    const nameEnd = at;
    at = skipSpace(bytes, at);
    if (bytes[at] !== 0x3a) throw new JsonError(at);
    const value = skipSpace(bytes, at + 1);
    at = skipValue(bytes, value, depth + 1);
    if (members) {
      const text = nameAt(bytes, name, nameEnd);
      if (members.has(text)) throw new JsonError(name);
      members.set(text, { start: value, end: at });
    }
    at = skipSpace(bytes, at);
    if (bytes[at] === 0x7d) return at + 1;
    if (bytes[at] !== 0x2c) throw new JsonError(at);
    at = skipSpace(bytes, at + 1);
  }
}

/** Names of nearly every message; they are known by their bytes and need not be made anew. */
const usual = ['jsonrpc', 'id', 'method', 'params', 'result', 'error', 'name', 'arguments'].map(
  (name) => ({ name, quoted: Buffer.from(JSON.stringify(name)) }),
);

function nameAt(bytes: Buffer, start: number, end: number): string {
  for (const { name, quoted } of usual)
    if (quoted.length === end - start && holds(bytes, start, quoted)) return name;
  const name: string = JSON.parse(bytes.toString('utf8', start, end));
  return name;
}

function holds(bytes: Buffer, start: number, wanted: Buffer): boolean {
  for (let at = 0; at < wanted.length; at += 1) if (bytes[start + at] !== wanted[at]) return false;
  return true;
}

function skipArray(bytes: Buffer, start: number, depth: number): number {
  let at = skipSpace(bytes, start + 1);
  if (bytes[at] === 0x5d) return at + 1;
  for (;;) {
    at = skipSpace(bytes, skipValue(bytes, at, depth + 1));
    if (bytes[at] === 0x5d) return at + 1;
    if (bytes[at] !== 0x2c) throw new JsonError(at);
    at = skipSpace(bytes, at + 1);
  }
}

function skipString(bytes: Buffer, start: number): number {
  for (let at = start + 1; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === quote) return at + 1;
    if (byte < 0x20) throw new JsonError(at);
    if (byte !== backslash) continue;
    at += 1;
    if (bytes[at] === 0x75) {
      if (!/^[0-9a-f]{4}$/i.test(bytes.toString('latin1', at + 1, at + 5))) throw new JsonError(at);
      at += 4;
    } else if (!'"\\/bfnrt'.includes(String.fromCharCode(bytes[at] ?? 0))) throw new JsonError(at);
  }
  throw new JsonError(bytes.length);
}

function skipNumber(bytes: Buffer, start: number): number {
  let at = bytes[start] === 0x2d ? start + 1 : start;
  const digits = () => {
    const from = at;
    while (isDigit(bytes[at])) at += 1;
    if (at === from) throw new JsonError(at);
  };
  if (bytes[at] === 0x30) at += 1;
  else digits();
  if (bytes[at] === 0x2e) {
    at += 1;
    digits();
  }
  if (bytes[at] === 0x65 || bytes[at] === 0x45) {
    at += 1;
    if (bytes[at] === 0x2b || bytes[at] === 0x2d) at += 1;
    digits();
  }
  return at;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

/** The first byte from `start` on that is no white space. */
export function skipSpace(bytes: Buffer, start: number): number {
  let at = start;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09)
    at += 1;
  return at;
}
