import type { createScanner, Node } from 'jsonc-parser';
import type { JsonChange } from './edit-json.ts';

type Scanner = { createScanner: typeof createScanner };

/**
 * `text` with one member set or removed, and not a character changed outside it but for the comma that
 * it needs. The library's own edits reformat the neighbours and lose the comments between.
 */
export function changedMember(
  text: string,
  tree: Node,
  { path, value }: JsonChange,
  jsonc: Scanner,
): string {
  let parent = tree;
  for (const [depth, name] of path.entries()) {
    const property = memberOf(parent, name);
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

export function endOfLine(text: string): string {
  return text.includes('\r\n') ? '\r\n' : '\n';
}

function memberOf({ children = [] }: Node, name: string): Node | undefined {
  return children.find((property) => property.children?.[0]?.value === name);
}

/** Also for `__proto__`, which a literal would take for something else. */
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
  // An object on one line stays on one, unless it is empty.
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
  // Behind the comment that explains the member before.
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
  // The comma before it was there for its sake.
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

/** Where the comma is that follows `offset`, comments aside; `undefined` when something else does. */
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

/** One step of indentation: that of the first member that has one. */
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
