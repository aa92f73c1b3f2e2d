import { type Span, blankEnd, jsonMembers, stringEnd, wordEnd } from './json.ts';

const [quote, comma, colon, openBrace, closeBrace, openBracket, closeBracket] = [
  0x22, 0x2c, 0x3a, 0x7b, 0x7d, 0x5b, 0x5d,
];
const backslash = 0x5c;

/**
 * The spans of an object's member values by decoded name. `span` lies in a text that `strictJson` accepted. A value
 * that is not an object has no members.
 */
export function membersIn(body: Buffer, span: Span): Map<string, Span> {
  const members = new Map<string, Span>();
  if (body[span.start] === openBrace) readObject(body, span.start, members);
  return members;
}

/** The span of one member's value, as `membersIn` has it. */
export function memberIn(body: Buffer, span: Span, wanted: string): Span | undefined {
  if (body[span.start] !== openBrace) return undefined;
  let at = blankEnd(body, span.start + 1);
  while (body[at] === quote) {
    const nameEnd = stringEnd(body, at, false);
    const start = blankEnd(body, blankEnd(body, nameEnd) + 1);
    const end = valueEnd(body, start);
    if (textOf(body, at, nameEnd) === wanted) return { start, end };
    at = blankEnd(body, end);
    if (body[at] === comma) at = blankEnd(body, at + 1);
  }
  return undefined;
}

/** The decoded text of the valid JSON string from `start` to `end`, quotes included. */
function textOf(body: Buffer, start: number, end: number): string {
  const raw = body.toString('utf8', start + 1, end - 1);
  return raw.includes('\\') ? String(JSON.parse(`"${raw}"`)) : raw;
}

/** The spans of an array's elements; `undefined` if the value is not an array. `span` as in `membersIn`. */
export function elementsIn(body: Buffer, span: Span): Span[] | undefined {
  if (body[span.start] !== openBracket) return undefined;
  const elements: Span[] = [];
  let start = blankEnd(body, span.start + 1);
  while (body[start] !== closeBracket) {
    const end = valueEnd(body, start);
    elements.push({ start, end });
    start = blankEnd(body, end);
    if (body[start] === comma) start = blankEnd(body, start + 1);
  }
  return elements;
}

/** An element of an array, with the spans of its member values if it is an object. */
export interface ReadElement {
  readonly span: Span;
  readonly members: ReadonlyMap<string, Span>;
}

/** Finds in one pass what `elementsIn` and `membersIn` find in an array of objects. */
export function objectsIn(body: Buffer, span: Span): ReadElement[] | undefined {
  if (body[span.start] !== openBracket) return undefined;
  const elements: ReadElement[] = [];
  let start = blankEnd(body, span.start + 1);
  while (body[start] !== closeBracket) {
    const members = new Map<string, Span>();
    const isObject = body[start] === openBrace;
    const end = isObject ? readObject(body, start, members) : valueEnd(body, start);
    elements.push({ span: { start, end }, members });
    start = blankEnd(body, end);
    if (body[start] === comma) start = blankEnd(body, start + 1);
  }
  return elements;
}

/** Adds the members of the object at `start`, and returns its end. */
function readObject(body: Buffer, start: number, members: Map<string, Span>): number {
  let at = blankEnd(body, start + 1);
  while (body[at] === quote) {
    const nameEnd = stringEnd(body, at, false);
    const value = blankEnd(body, blankEnd(body, nameEnd) + 1);
    const end = valueEnd(body, value);
    members.set(textOf(body, at, nameEnd), { start: value, end });
    at = blankEnd(body, end);
    if (body[at] === comma) at = blankEnd(body, at + 1);
  }
  return at + 1;
}

/** The string at `span`; `undefined` if it is not a string. */
export function stringAt(body: Buffer, span: Span | undefined): string | undefined {
  return span && body[span.start] === quote ? textOf(body, span.start, span.end) : undefined;
}

function valueEnd(body: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; ; at = blankEnd(body, at)) {
    const first = body[at];
    if (first === openBrace || first === openBracket) {
      depth++;
      at++;
    } else if (first === closeBrace || first === closeBracket) {
      depth--;
      at++;
    } else if (first === comma || first === colon) at++;
    else at = first === quote ? stringEnd(body, at, false) : wordEnd(body, at);
    if (depth === 0) return at;
  }
}

/** A change to a message, for `replaced`. */
export interface Edit {
  readonly span: Span;
  readonly text: string;
}

/**
 * Edits that set members of the object at `span` to the given JSON texts, replacing members of the same name. Empty if
 * the value at `span` is not an object.
 */
export function memberEdits(
  body: Buffer,
  span: Span | undefined,
  values: Readonly<Record<string, string>>,
): Edit[] {
  if (!span || body[span.start] !== 0x7b) return [];
  const there = membersIn(body, span);
  const edits: Edit[] = [];
  const added: string[] = [];
  for (const [name, json] of Object.entries(values)) {
    const known = there.get(name);
    if (known) edits.push({ span: known, text: json });
    else added.push(`${JSON.stringify(name)}:${json}`);
  }
  if (added.length === 0) return edits;
  const at = span.start + 1;
  const isEmpty = body[blankEnd(body, at)] === 0x7d;
  const text = `${added.join(',')}${isEmpty ? '' : ','}`;
  return [...edits, { span: { start: at, end: at }, text }];
}

/** JSON text by member name; `undefined` removes the member. */
export type MemberChanges = Readonly<Record<string, string | Buffer | undefined>>;

/**
 * The object at `span`, or an empty one if there is none, with `changes` applied. The values of other members keep
 * their bytes.
 *
 * @throws {JsonError} if the object names a member twice
 */
export function withMembers(body: Buffer, span: Span | undefined, changes: MemberChanges): Buffer {
  const there = (span && jsonMembers(body, span)) ?? new Map<string, Span>();
  const parts: Buffer[] = [];
  const add = (name: string, value: string | Buffer) => {
    const separator = parts.length === 0 ? '{' : ',';
    parts.push(Buffer.from(`${separator}${JSON.stringify(name)}:`));
    parts.push(typeof value === 'string' ? Buffer.from(value) : value);
  };
  for (const [name, { start, end }] of there)
    if (!Object.hasOwn(changes, name)) add(name, body.subarray(start, end));
  for (const [name, value] of Object.entries(changes)) if (value !== undefined) add(name, value);
  return Buffer.concat([...parts, Buffer.from(parts.length === 0 ? '{}' : '}')]);
}

/** The result of `withMembers` as a string. */
export function changedObject(
  body: Buffer,
  span: Span | undefined,
  changes: MemberChanges,
): string {
  return withMembers(body, span, changes).toString();
}

/** Names of members, with their JSON text in bytes, which is compared without decoding. */
export type MemberNames = readonly { readonly name: string; readonly quoted: Buffer }[];

export function memberNames(...names: string[]): MemberNames {
  return names.map((name) => ({ name, quoted: Buffer.from(JSON.stringify(name)) }));
}

/** The spans of the values of these members, in the order of `names`. `span` as in `membersIn`. */
export function valuesOf(body: Buffer, span: Span, names: MemberNames): (Span | undefined)[] {
  const found: (Span | undefined)[] = names.map(() => undefined);
  if (body[span.start] !== openBrace) return found;
  let at = blankEnd(body, span.start + 1);
  while (body[at] === quote) {
    const nameEnd = stringEnd(body, at, false);
    const start = blankEnd(body, blankEnd(body, nameEnd) + 1);
    const end = valueEnd(body, start);
    const index = indexOfName(body, at, nameEnd, names);
    if (index >= 0) found[index] = { start, end };
    at = blankEnd(body, end);
    if (body[at] === comma) at = blankEnd(body, at + 1);
  }
  return found;
}

/** The index in `names` of the string from `start` to `end`; -1 if it is not among them. */
function indexOfName(body: Buffer, start: number, end: number, names: MemberNames): number {
  if (hasEscape(body, start, end)) {
    const name = textOf(body, start, end);
    return names.findIndex((one) => one.name === name);
  }
  for (let index = 0; index < names.length; index++) {
    const quoted = names[index]?.quoted;
    // Names of MCP begin alike, so the last bytes are compared first.
    let left = quoted?.length === end - start ? end - start - 1 : 0;
    while (left > 0 && quoted?.[left] === body[start + left]) left--;
    if (quoted?.length === end - start && left === 0) return index;
  }
  return -1;
}

function hasEscape(body: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (body[at] === backslash) return true;
  return false;
}

/** Writes a JSON text that consists mostly of parts of another one. */
export class JsonWriter {
  #bytes: Buffer;
  #length = 0;

  /** `bytes` is the expected length of the text. */
  constructor(bytes: number) {
    this.#bytes = Buffer.allocUnsafe(bytes);
  }

  /** How much has been written, in bytes. */
  get length(): number {
    return this.#length;
  }

  get written(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  text(json: string): void {
    // UTF-8 has at most three bytes for each code unit.
    this.#reserve(3 * json.length);
    this.#length += this.#bytes.write(json, this.#length);
  }

  copy(body: Buffer, start: number, end: number): void {
    this.#reserve(end - start);
    this.#length += body.copy(this.#bytes, this.#length, start, end);
  }

  /**
   * Copies the members of the object at `span`, except those named in `dropped`, as `withMembers` writes them. Returns whether it
   * copied any. `span` as in `membersIn`; the value at `known`, if given, is not read again.
   */
  members(body: Buffer, span: Span | undefined, dropped: MemberNames, known?: Span): boolean {
    if (!span || body[span.start] !== openBrace) return false;
    let isFirst = true;
    // Adjacent members that are copied unchanged are copied in one step.
    let run = 0;
    let runEnd = -1;
    let at = blankEnd(body, span.start + 1);
    while (body[at] === quote) {
      const nameEnd = stringEnd(body, at, false);
      const start = blankEnd(body, blankEnd(body, nameEnd) + 1);
      const end = start === known?.start ? known.end : valueEnd(body, start);
      if (indexOfName(body, at, nameEnd, dropped) < 0) {
        const isSame = start === nameEnd + 1 && !hasEscape(body, at, nameEnd);
        if (!isSame || at !== runEnd + 1) {
          if (runEnd > 0) this.copy(body, run, runEnd);
          if (!isFirst) this.text(',');
          if (!isSame) this.text(`${JSON.stringify(textOf(body, at, nameEnd))}:`);
          run = isSame ? at : start;
        }
        runEnd = end;
        isFirst = false;
      }
      at = blankEnd(body, end);
      if (body[at] === comma) at = blankEnd(body, at + 1);
    }
    if (runEnd > 0) this.copy(body, run, runEnd);
    return !isFirst;
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return;
    const before = this.written;
    this.#bytes = Buffer.allocUnsafe(2 * (this.#length + bytes));
    before.copy(this.#bytes);
  }
}

/** The body with each span replaced by its text. The spans must not overlap and can be in any order. */
export function replaced(body: Buffer, edits: readonly Edit[]): Buffer {
  const [only, another] = edits;
  if (only && !another) return replacedOnce(body, only);
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const { span, text } of edits.toSorted((one, other) => one.span.start - other.span.start)) {
    parts.push(body.subarray(at, span.start), Buffer.from(text));
    at = span.end;
  }
  return Buffer.concat([...parts, body.subarray(at)]);
}

/** Applies a single edit, the usual case: most messages only get another id. */
function replacedOnce(body: Buffer, { span: { start, end }, text }: Edit): Buffer {
  const bytes = Buffer.byteLength(text);
  const made = Buffer.allocUnsafe(body.length - (end - start) + bytes);
  body.copy(made, 0, 0, start);
  made.write(text, start);
  body.copy(made, start + bytes, end);
  return made;
}
