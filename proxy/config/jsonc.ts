import { memberOf } from 'latchkey-mcp/json-value';
import type { Node, ParseError, createScanner, SyntaxKind } from 'jsonc-parser';
import { ConfigurationError } from './errors.ts';

/**
 * Parses JSON that may contain comments and trailing commas, as VS Code allows.
 *
 * @throws {SyntaxError}
 */
export function parseJsonc(text: string): unknown {
  const bare = text
    .replace(/^\u{FEFF}/u, '')
    .replace(
      /("(?:[^"\\]|\\.)*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g,
      (_, string?: string) => string ?? ' ',
    )
    .replace(/("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])/g, (_, string?: string) => string ?? '');
  return JSON.parse(bare);
}

/** A member to set, or to remove if `value` is `undefined`. */
export type JsonChange = { path: readonly string[]; value: unknown };

const byteOrderMark = '\u{FEFF}';

/**
 * Changes some members of a file's text, and nothing else: comments, order, indentation, line ends and a byte order mark stay.
 * `bytes` is `undefined` for a file that does not exist yet.
 *
 * @throws {ConfigurationError} with line and column if the text is invalid
 */
export async function editJson(
  bytes: Buffer | undefined,
  source: string,
  changes: readonly JsonChange[],
): Promise<Buffer> {
  const jsonc = await import('jsonc-parser');
  const whole = decodedText(bytes, source);
  const mark = whole.startsWith(byteOrderMark) ? byteOrderMark : '';
  let text = whole.slice(mark.length);
  if (text.trim() === '') text = `{}${endOfLine(text)}`;
  for (const { path, value } of changes) {
    const errors: ParseError[] = [];
    const tree = jsonc.parseTree(text, errors, { allowTrailingComma: true });
    const [first] = errors;
    if (first) {
      const what = jsonc.printParseErrorCode(first.error).replaceAll(/\B[A-Z]/g, ' $&');
      throw editRefusal(source, text, first.offset, `is not valid JSON (${what.toLowerCase()})`);
    }
    checkPlace(tree, path, (node, problem) => editRefusal(source, text, node.offset, problem));
    if (tree) text = changedMember(text, tree, { path, value }, jsonc);
  }
  return Buffer.from(mark + text);
}

/** Checks that every object on the path exists or can be created, and exists only once. */
function checkPlace(
  tree: Node | undefined,
  path: readonly string[],
  refuse: (node: Node, problem: string) => Error,
): void {
  let node = tree;
  for (const name of path) {
    if (!node) return;
    if (node.type !== 'object') throw refuse(node, 'is not an object');
    const named = (node.children ?? []).filter(({ children }) => children?.[0]?.value === name);
    const [property, second] = named;
    // It is unknown which of the two the assistant reads.
    if (second) throw refuse(second, `contains "${name}" twice`);
    node = property?.children?.[1];
  }
}

/** @throws {ConfigurationError} */
export function decodedText(bytes: Buffer | undefined, source: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ConfigurationError([{ source, key: '', problem: 'is not UTF-8 text' }]);
  }
}

/** The error for a file that cannot be changed, with line and column. */
export function editRefusal(source: string, text: string, offset: number, problem: string): Error {
  const before = text.slice(0, offset).split('\n');
  const place = `${source}:${before.length}:${(before.at(-1)?.length ?? 0) + 1}`;
  const remedy = 'nothing was changed; fix the file, then try again';
  return new ConfigurationError([{ source: place, key: '', problem: `${problem}; ${remedy}` }]);
}

type Scanner = { createScanner: typeof createScanner };

/**
 * Sets or removes one member of `text`, and changes nothing else except the comma that this requires. The library's own edits
 * reformat neighbouring members and lose the comments between them.
 */
function changedMember(
  text: string,
  tree: Node,
  { path, value }: JsonChange,
  jsonc: Scanner,
): string {
  let parent = tree;
  for (const [depth, name] of path.entries()) {
    const property = nodeOf(parent, name);
    const held = property?.children?.[1];
    if (!property || !held) {
      if (value === undefined) return text;
      const rest = path.slice(depth + 1);
      const nested = rest.reduceRight((inner, key) => ownObject(key, inner), value);
      return withMember(text, parent, name, nested, jsonc);
    }
    if (depth === path.length - 1)
      return value === undefined
        ? withoutMember(text, parent, property, jsonc)
        : withValue(text, held, value);
    parent = held;
  }
  return text;
}

function endOfLine(text: string): string {
  return text.includes('\r\n') ? '\r\n' : '\n';
}

function nodeOf({ children = [] }: Node, name: string): Node | undefined {
  return children.find((property) => property.children?.[0]?.value === name);
}

/** Also correct for `__proto__`, which has a special meaning in an object literal. */
function ownObject(key: string, value: unknown): object {
  return Object.fromEntries([[key, value]]);
}

function withMember(
  text: string,
  object: Node,
  name: string,
  value: unknown,
  jsonc: Scanner,
): string {
  const { children = [], offset, length } = object;
  const last = children.at(-1);
  const close = offset + length - 1;
  const eol = endOfLine(text);
  const outer = lineIndent(text, offset);
  // An object on one line stays on one line, unless it is empty.
  const flat = last !== undefined && !text.slice(offset, close).includes('\n');
  const indent = last && !flat ? lineIndent(text, last.offset) : outer + unitOf(text);
  const member = `${JSON.stringify(name)}: ${flat ? JSON.stringify(value) : pretty(text, value, indent)}`;
  if (!last) {
    const inside = text.slice(offset + 1, close).trimEnd();
    return splice(text, offset + 1, close, `${inside}${eol}${indent}${member}${eol}${outer}`);
  }
  const lastEnd = last.offset + last.length;
  const comma = commaAfter(text, lastEnd, jsonc);
  const end = comma === undefined ? lastEnd : comma + 1;
  // Insert after a comment that follows the last member.
  const at = end + text.slice(end, close).trimEnd().length;
  const before = `${text.slice(0, lastEnd)}${comma === undefined ? ',' : ''}${text.slice(lastEnd, at)}`;
  const separator = flat ? ' ' : eol + indent;
  return `${before}${separator}${member}${comma === undefined ? '' : ','}${text.slice(at)}`;
}

function withValue(text: string, held: Node, value: unknown): string {
  const shown = pretty(text, value, lineIndent(text, held.offset));
  return splice(text, held.offset, held.offset + held.length, shown);
}

function withoutMember(text: string, object: Node, property: Node, jsonc: Scanner): string {
  const { children = [] } = object;
  const at = children.indexOf(property);
  const previous = children[at - 1];
  const end = property.offset + property.length;
  const comma = commaAfter(text, end, jsonc);
  const start = text.slice(0, property.offset).trimEnd().length;
  const rest = splice(text, start, comma === undefined ? end : comma + 1, '');
  // The comma before it is no longer needed.
  const before =
    previous && comma === undefined
      ? commaAfter(text, previous.offset + previous.length, jsonc)
      : undefined;
  if (before !== undefined) return splice(rest, before, before + 1, '');
  if (children.length > 1) return rest;
  const inside = rest.slice(object.offset + 1, rest.indexOf('}', start));
  if (inside.trim() !== '') return rest;
  return splice(rest, object.offset + 1, object.offset + 1 + inside.length, '');
}

/** The offset of the comma after `offset`, ignoring comments; `undefined` if something else follows. */
function commaAfter(text: string, offset: number, jsonc: Scanner): number | undefined {
  const scanner = jsonc.createScanner(text, true);
  scanner.setPosition(offset);
  scanner.scan();
  const at = scanner.getTokenOffset();
  return text[at] === ',' ? at : undefined;
}

function pretty(text: string, value: unknown, indent: string): string {
  return JSON.stringify(value, null, unitOf(text)).replaceAll('\n', endOfLine(text) + indent);
}

/** The unit of indentation: that of the first indented member. */
function unitOf(text: string): string {
  return /^([ \t]+)"/m.exec(text)?.[1] ?? '  ';
}

function lineIndent(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset);
  return /^[ \t]*/.exec(line)?.[0] ?? '';
}

function splice(text: string, start: number, end: number, between: string): string {
  return text.slice(0, start) + between + text.slice(end);
}

/** The value at `path` in a file's JSON with comments; `undefined` if there is none. */
export async function memberAt(
  bytes: Buffer | undefined,
  path: readonly string[],
): Promise<unknown> {
  if (!bytes) return undefined;
  const { parse } = await import('jsonc-parser');
  const text = bytes.toString().replace(/^\u{FEFF}/u, '');
  let value: unknown = parse(text, [], { allowTrailingComma: true });
  for (const name of path) value = memberOf(value, name);
  return value;
}

// The library declares `SyntaxKind` as a const enum, whose values are not available if files are compiled one by one.
const stringLiteral: SyntaxKind = 10;
const endOfFile: SyntaxKind = 17;

/**
 * Changes every string and comment of a file's text with `mask`, and nothing else. Text that is not valid JSON is masked
 * too, because strings can be recognized anywhere.
 */
export async function maskedStrings(
  bytes: Buffer,
  mask: (text: string) => string,
): Promise<Buffer> {
  const { createScanner } = await import('jsonc-parser');
  const text = bytes.toString();
  const scanner = createScanner(text, false);
  let masked = '';
  for (let kind = scanner.scan(); kind !== endOfFile; kind = scanner.scan()) {
    const token = text.slice(
      scanner.getTokenOffset(),
      scanner.getTokenOffset() + scanner.getTokenLength(),
    );
    if (kind === stringLiteral) {
      const value = scanner.getTokenValue();
      const safe = mask(value);
      masked += safe === value ? token : JSON.stringify(safe);
    } else {
      masked += mask(token);
    }
  }
  return Buffer.from(masked);
}
