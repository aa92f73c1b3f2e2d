import { createHash } from 'node:crypto';
import type { ToolDefinition } from '#db/tool-definitions';

const longestText = 16 * 1024;

/** The longest name of a tool, longer than MCP recommends. An index of the database could not hold a longer one. */
export const longestName = 200;

/**
 * The definition of an element of `tools`, as `exactJson` reads it; `undefined` if it is not a tool.
 *
 * MCP 2025-11-25 server/tools
 */
export function toolDefinition(tool: unknown): ToolDefinition | undefined {
  if (typeof tool !== 'object' || tool === null) return undefined;
  const { name, ...described } = { ...tool } as Readonly<Record<string, unknown>>;
  if (typeof name !== 'string' || !isStorable(name)) return undefined;
  const digest = createHash('sha256')
    .update(JSON.stringify(described, inNameOrder))
    .digest('base64url');
  const whole = laidOutJson(described, longestText, { sorted: true });
  const text = whole.length > longestText ? `${whole.slice(0, longestText)}…` : whole;
  return { name, digest, text };
}

/** Whether the database stores a name unchanged. Otherwise the tool could not be compared later. */
function isStorable(name: string): boolean {
  const isText = name.isWellFormed() && !name.includes('\0');
  return name !== '' && name.length <= longestName && isText;
}

function inNameOrder(_: string, value: unknown): unknown {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject || JSON.isRawJSON(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

type Members = Iterable<readonly [label: string, value: unknown]>;

/**
 * A JSON value, of `JSON.parse` or `exactJson`, as text for people, indented by two spaces as `JSON.stringify` does it; with `sorted`, members are in the order
 * of their names. The text ends soon after `most` characters: deeply nested JSON becomes a hundred times as long when it is
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
