import { createHash } from 'node:crypto';
import { type Definition, type DefinitionKind, instructionsName } from '#model/definitions';
import { toolHints } from '#model/tool-correction';

const longestText = 16 * 1024;

/** How many characters of instructions are stored; the rest is cut off. */
const longestInstructions = 64 * 1024;

/** The longest name of a tool or prompt, longer than MCP recommends. */
export const longestName = 200;

/** The longest URI template. An index of the database could not hold much longer ones. */
const longestTemplate = 800;

/** A kind of definitions that a server lists. */
export type ListedKind = Exclude<DefinitionKind, 'instructions'>;

/** The member that identifies a definition of each kind. */
const nameMembers: Readonly<Record<ListedKind, string>> = {
  tool: 'name',
  prompt: 'name',
  template: 'uriTemplate',
};

/**
 * The definition of an element of a list, as `exactJson` reads it; `undefined` if it is not of this kind, or could not be compared later.
 *
 * MCP 2025-11-25 and 2026-07-28 `Tool`, `Prompt`, `ResourceTemplate`
 */
export function definitionOf(kind: ListedKind, listed: unknown): Definition | undefined {
  if (typeof listed !== 'object' || listed === null) return undefined;
  const member = nameMembers[kind];
  const { [member]: name, ...described } = { ...listed } as Readonly<Record<string, unknown>>;
  const longest = kind === 'template' ? longestTemplate : longestName;
  if (typeof name !== 'string' || !isStorable(name, longest)) return undefined;
  const digest = createHash('sha256')
    .update(JSON.stringify(described, inNameOrder))
    .digest('base64url');
  const whole = laidOutJson(described, longestText, { sorted: true });
  const text = cut(whole, longestText);
  if (kind !== 'tool') return { name, digest, text };
  return { name, digest, text, annotations: annotationsText(described['annotations']) };
}

export function toolDefinition(tool: unknown): Definition | undefined {
  return definitionOf('tool', tool);
}

/** The definition of a server's instructions. */
export function instructionsDefinition(text: string): Definition {
  return {
    name: instructionsName,
    digest: instructionsDigest(text),
    // PostgreSQL stores neither lone surrogates nor NUL.
    text: cut(text.toWellFormed().replaceAll('\0', '\ufffd'), longestInstructions),
  };
}

export function instructionsDigest(text: string): string {
  return createHash('sha256').update(JSON.stringify(text)).digest('base64url');
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
}

/**
 * A short JSON text that is equal for equal annotations of tools: their Boolean hints and, if they contain anything else, a digest of them all.
 */
function annotationsText(annotations: unknown): string {
  if (annotations === undefined || annotations === null) return '{}';
  const members = typeof annotations === 'object' ? annotations : {};
  const hints = toolHints.flatMap((name) => {
    const value: unknown = Reflect.get(members, name);
    return typeof value === 'boolean' ? [[name, value] as const] : [];
  });
  const isAll = !Array.isArray(annotations) && Object.keys(members).length === hints.length;
  const isPlain = isAll && typeof annotations === 'object';
  const json = JSON.stringify(annotations, inNameOrder);
  const other = isPlain ? {} : { other: createHash('sha256').update(json).digest('base64url') };
  return JSON.stringify({ ...Object.fromEntries(hints), ...other });
}

/** Whether the database stores a name unchanged. Otherwise it could not be compared later. */
function isStorable(name: string, longest: number): boolean {
  const isText = name.isWellFormed() && !name.includes('\0');
  return name !== '' && name.length <= longest && isText;
}

function inNameOrder(_: string, value: unknown): unknown {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject || JSON.isRawJSON(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

type Members = Iterable<readonly [label: string, value: unknown]>;

/**
 * Formats a JSON value from `JSON.parse` or `exactJson` for people, indented by two spaces as `JSON.stringify` does it; `sorted` orders
 * members by name. The text ends soon after `most` characters: deeply nested JSON becomes a hundred times as long when it is
 * indented, and formatting all of it would block every other caller.
 */
export function laidOutJson(value: unknown, most: number, { sorted = false } = {}): string {
  const parts: string[] = [];
  let length = 0;

  const put = (text: string) => {
    parts.push(text);
    length += text.length;
  };
  const putWithin = (
    [open, close]: readonly [string, string],
    members: Members,
    indent: string,
  ) => {
    let count = 0;
    put(open);
    for (const [label, member] of members) {
      if (length > most) return;
      put(`${count === 0 ? '' : ','}\n${indent}  ${label}`);
      putValue(member, `${indent}  `);
      count += 1;
    }
    put(count === 0 ? close : `\n${indent}${close}`);
  };
  const putValue = (one: unknown, indent: string) => {
    if (Array.isArray(one)) {
      putWithin(['[', ']'], elementsOf(one), indent);
    } else if (typeof one === 'object' && one !== null && !JSON.isRawJSON(one)) {
      putWithin(['{', '}'], membersOf(one, sorted), indent);
    } else {
      put(JSON.stringify(one));
    }
  };

  putValue(value, '');
  return parts.join('');
}

function* elementsOf(list: readonly unknown[]): Members {
  for (const element of list) yield ['', element];
}

function membersOf(value: object, sorted: boolean): Members {
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  if (sorted) members.sort(([a], [b]) => (a < b ? -1 : 1));
  return members.map(([name, member]) => [`${JSON.stringify(name)}: `, member] as const);
}
