import type { Span } from 'latchkey-mcp/json';
import { membersIn, objectsIn, stringAt } from 'latchkey-mcp/json-edit';
import { type Scan, isError, scanMessage } from 'latchkey-mcp/message';
import type { PrimitiveKind, ToolRights } from '#model/tool-rights';
import type { Filter } from './filters.ts';
import { GatewayRefusal } from './gateway-refusal.ts';

/** A list of what a server offers. */
interface ListShape {
  readonly kind: PrimitiveKind;
  /** The member of the result that is the list. */
  readonly member: string;
  /** The member that identifies an entry. */
  readonly key: string;
  /** What it lists, in messages. */
  readonly what: string;
  /** Whether two entries with the same key make it unreadable, because both would be compared with what was accepted. */
  readonly isUnique: boolean;
  readonly resultMembers: KnownMembers;
  readonly entryMembers: KnownMembers;
}

const ofEveryEntry = ['name', 'title', 'description', 'icons', '_meta'];

function shape(
  kind: PrimitiveKind,
  member: string,
  key: string,
  {
    what = member,
    isUnique = false,
    others,
  }: {
    readonly what?: string;
    readonly isUnique?: boolean;
    readonly others: readonly string[];
  },
): ListShape {
  return {
    kind,
    member,
    key,
    what,
    isUnique,
    resultMembers: knownMembers(member, 'nextCursor', 'ttlMs', 'cacheScope', '_meta'),
    entryMembers: knownMembers(key, ...ofEveryEntry, ...others),
  };
}

/** MCP 2025-11-25 and 2026-07-28 server/tools, server/prompts, server/resources; the extension `io.modelcontextprotocol/skills` */
const shapes = {
  'tools/list': shape('tool', 'tools', 'name', {
    isUnique: true,
    others: ['inputSchema', 'outputSchema', 'annotations', 'execution'],
  }),
  'prompts/list': shape('prompt', 'prompts', 'name', { isUnique: true, others: ['arguments'] }),
  'resources/list': shape('resource', 'resources', 'uri', {
    others: ['mimeType', 'size', 'annotations'],
  }),
  'resources/templates/list': shape('template', 'resourceTemplates', 'uriTemplate', {
    what: 'resource templates',
    others: ['mimeType', 'annotations'],
  }),
  'skills/list': shape('resource', 'skills', 'uri', { others: ['frontmatter', 'resources'] }),
} as const satisfies Record<string, ListShape>;

/** A method whose results are lists of what a server offers. */
export type ListMethod = keyof typeof shapes;

export function isListMethod(method: string | undefined): method is ListMethod {
  return method !== undefined && Object.hasOwn(shapes, method);
}

/** What the entries of a list are. Skills are resources. */
export function listedKind(method: ListMethod): PrimitiveKind {
  return shapes[method].kind;
}

/** One answer to a list method and the location of its entries. */
export interface ReadList {
  /** The location of the array. */
  readonly span: Span;
  /** By their names, URIs or templates. */
  readonly entries: readonly { readonly name: string; readonly span: Span }[];
  /** Absent on the last page. An empty text is a cursor. */
  readonly nextCursor: string | undefined;
  readonly result: Span;
  /** The members of the result. */
  readonly members: ReadonlyMap<string, Span>;
}

/** More than any client shows. */
const maxEntries = 10_000;

/**
 * The entries in an answer to a list method; `undefined` for an error. Anything that two parsers could read differently
 * is refused, because a client could see entries that were not checked.
 *
 * @throws {GatewayRefusal} `unreadable_tools`, `unreadable_list`
 */
export function listIn(
  message: Buffer,
  method: ListMethod,
  scan: Scan = scanMessage(message),
): ReadList | undefined {
  const { member, key, what, isUnique, resultMembers, entryMembers }: ListShape = shapes[method];
  const unreadable = (why: string) => unreadableList(method, why);
  if (scan.outcome === 'refused') {
    if (isError(message)) return undefined;
    throw unreadable(scan.reason);
  }
  const { kind, result } = scan.envelope;
  if (kind !== 'response') throw unreadable('it is not a response');
  if (!result) return undefined;
  const members = membersIn(message, result);
  checkNames(members, resultMembers, unreadable);
  const span = members.get(member);
  if (!span || message[span.start] !== 0x5b) throw unreadable(`${member} is not an array`);
  const elements = objectsIn(message, span) ?? [];
  if (elements.length > maxEntries) throw unreadable(`it has more than ${maxEntries} ${what}`);
  const names = new Set<string>();
  const entries = elements.map((element) => {
    checkNames(element.members, entryMembers, unreadable);
    const name = stringAt(message, element.members.get(key));
    if (name === undefined) throw unreadable(`${entryOf(what)} has no ${key}`);
    if (isUnique && names.has(name)) throw unreadable(`two ${what} have the same ${key}`);
    names.add(name);
    return { name, span: element.span };
  });
  const nextCursor = stringAt(message, members.get('nextCursor'));
  return { span, entries, nextCursor, result, members };
}

function entryOf(what: string): string {
  return `a ${what.replace(/s$/, '')}`;
}

/** An answer to `tools/list` and the location of its tools. */
export interface ToolList {
  /** The location of the array. */
  readonly span: Span;
  readonly tools: ReadList['entries'];
}

/** The tools in an answer to `tools/list`, as `listIn` reads them. @throws {GatewayRefusal} `unreadable_tools` */
export function toolsIn(message: Buffer): ToolList | undefined {
  const list = listIn(message, 'tools/list');
  return list && { span: list.span, tools: list.entries };
}

/** The refusal of a list that two parsers could read differently. */
export function unreadableList(method: ListMethod, why: string): GatewayRefusal {
  const detail = `its list of ${shapes[method].what} could not be read: ${why}`;
  return new GatewayRefusal(method === 'tools/list' ? 'unreadable_tools' : 'unreadable_list', {
    detail,
  });
}

export function unreadableTools(why: string): GatewayRefusal {
  return unreadableList('tools/list', why);
}

interface KnownMembers {
  readonly names: ReadonlySet<string>;
  /** The same in lower case. */
  readonly lower: ReadonlySet<string>;
}

function knownMembers(...names: string[]): KnownMembers {
  return { names: new Set(names), lower: new Set(names.map((name) => name.toLowerCase())) };
}

/** Refuses names of members that a case-insensitive parser could take for a known one. */
function checkNames(
  members: ReadonlyMap<string, Span>,
  { names, lower }: KnownMembers,
  unreadable: (why: string) => GatewayRefusal,
): void {
  for (const name of members.keys()) {
    // For example U+017F, which some parsers read as `s`.
    if (!names.has(name) && lower.has(name.toUpperCase().toLowerCase())) {
      throw unreadable('the name of a member differs from a known one only in case');
    }
  }
}

/**
 * Leaves out of a list what its caller may not use, and says that it is for that caller alone if it depends on who asks. An answer
 * that cannot be parsed is refused rather than passed on. `undefined` if it passes as it is.
 *
 * MCP 2026-07-28 server/utilities/caching
 */
export function filteredList(method: ListMethod, rights: ToolRights): Filter | undefined {
  const { kind } = shapes[method];
  const isPrivate = rights.dependsOnCaller;
  if (!rights.restricts(kind) && !isPrivate) return undefined;
  return (message) => {
    const { bytes } = message;
    const list = listIn(bytes, method, message.scan);
    if (!list) return message;
    const edits = isPrivate ? privateEdits(bytes, list) : [];
    const left = withoutEntries(bytes, list, (name) => !rights.lists(kind, name));
    return message.changed(replacedBytes(bytes, left ? [...edits, left] : edits));
  };
}

const isPrivateText = '"private"';

/** Edits that mark a result as private, if it has hints for caches. */
export function privateEdits(
  bytes: Buffer,
  { result, members }: Pick<ReadList, 'result' | 'members'>,
): ByteEdit[] {
  const scope = members.get('cacheScope');
  if (scope) {
    const isSame = bytes.toString('latin1', scope.start, scope.end) === isPrivateText;
    return isSame ? [] : [{ span: scope, parts: [Buffer.from(isPrivateText)] }];
  }
  if (!members.has('ttlMs')) return [];
  const at = result.start + 1;
  return [{ span: { start: at, end: at }, parts: [Buffer.from(`"cacheScope":${isPrivateText},`)] }];
}

/** A change to a message, as bytes. */
export interface ByteEdit {
  readonly span: Span;
  readonly parts: readonly Buffer[];
}

const comma = Buffer.from(',');

/** The edit that removes entries from a list; `undefined` if none is to be removed. All other bytes stay the same. */
function withoutEntries(
  message: Buffer,
  { span, entries }: ReadList,
  isRemoved: (name: string) => boolean,
): ByteEdit | undefined {
  const kept = entries.filter(({ name }) => !isRemoved(name));
  if (kept.length === entries.length) return undefined;
  const parts = kept.flatMap((entry, index) => {
    const bytes = message.subarray(entry.span.start, entry.span.end);
    return index > 0 ? [comma, bytes] : [bytes];
  });
  return { span: { start: span.start + 1, end: span.end - 1 }, parts };
}

export function replacedBytes(message: Buffer, edits: readonly ByteEdit[]): Buffer {
  if (edits.length === 0) return message;
  const parts: Buffer[] = [];
  let at = 0;
  for (const edit of edits.toSorted((one, other) => one.span.start - other.span.start)) {
    parts.push(message.subarray(at, edit.span.start), ...edit.parts);
    at = edit.span.end;
  }
  return Buffer.concat([...parts, message.subarray(at)]);
}

/**
 * An answer to a list method without these entries; all other bytes stay the same.
 *
 * @throws {GatewayRefusal} `unreadable_tools`, `unreadable_list`
 */
export function messageWithout(
  message: Buffer,
  method: ListMethod,
  isRemoved: (name: string) => boolean,
): Buffer {
  const list = listIn(message, method);
  const left = list && withoutEntries(message, list, isRemoved);
  return left ? replacedBytes(message, [left]) : message;
}

/** A `tools/list` answer without these tools. @throws {GatewayRefusal} `unreadable_tools` */
export function messageWithoutTools(message: Buffer, hidden: readonly string[]): Buffer {
  const isHidden = new Set(hidden);
  return messageWithout(message, 'tools/list', (name) => isHidden.has(name));
}
