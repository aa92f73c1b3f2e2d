import type { Span } from 'latchkey-mcp/json';
import { type Edit, membersIn, objectsIn, replaced, stringAt } from 'latchkey-mcp/json-edit';
import { type Scan, isError, scanMessage } from 'latchkey-mcp/message';
import { Steps } from '#model/resource-uri';
import type { PrimitiveKind, ToolRights } from '#model/tool-rights';
import type { Filter } from './filters.ts';
import { GatewayRefusal } from './gateway-refusal.ts';

/** The form of a list of tools, prompts, resources, resource templates or skills. */
interface ListShape {
  readonly kind: PrimitiveKind;
  /** The member of the result that is the list. */
  readonly member: string;
  /** The member that identifies an entry. */
  readonly key: string;
  /** The name of the entries in error messages, in the plural. */
  readonly what: string;
  /** Whether the entries are compared with the accepted definitions. Two entries with the same key then make the list unreadable. */
  readonly isPinned: boolean;
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
    isPinned = false,
    others,
  }: {
    readonly what?: string;
    readonly isPinned?: boolean;
    readonly others: readonly string[];
  },
): ListShape {
  return {
    kind,
    member,
    key,
    what,
    isPinned,
    resultMembers: knownMembers(member, 'nextCursor', 'ttlMs', 'cacheScope', '_meta'),
    entryMembers: knownMembers(key, ...ofEveryEntry, ...others),
  };
}

/** MCP 2025-11-25 and 2026-07-28 server/tools, server/prompts, server/resources; the extension `io.modelcontextprotocol/skills` */
const shapes = {
  'tools/list': shape('tool', 'tools', 'name', {
    isPinned: true,
    others: ['inputSchema', 'outputSchema', 'annotations', 'execution'],
  }),
  'prompts/list': shape('prompt', 'prompts', 'name', { isPinned: true, others: ['arguments'] }),
  'resources/list': shape('resource', 'resources', 'uri', {
    others: ['mimeType', 'size', 'annotations'],
  }),
  'resources/templates/list': shape('template', 'resourceTemplates', 'uriTemplate', {
    what: 'resource templates',
    isPinned: true,
    others: ['mimeType', 'annotations'],
  }),
  'skills/list': shape('resource', 'skills', 'uri', { others: ['frontmatter', 'resources'] }),
} as const satisfies Record<string, ListShape>;

/** A method that lists tools, prompts, resources, resource templates or skills. */
export type ListMethod = keyof typeof shapes;

/** The list that decides which names of a kind exist. */
export const listOfKind = {
  tool: 'tools/list',
  prompt: 'prompts/list',
  resource: 'resources/list',
  template: 'resources/templates/list',
} as const satisfies Record<PrimitiveKind, ListMethod>;

export function isListMethod(method: string | undefined): method is ListMethod {
  return method !== undefined && Object.hasOwn(shapes, method);
}

/** Whether the entries of this method's lists are compared with the accepted definitions. */
export function isPinnedList(method: string): method is ListMethod {
  return isListMethod(method) && shapes[method].isPinned;
}

/** The kind of the entries of a list. Skills are resources. */
export function listedKind(method: ListMethod): PrimitiveKind {
  return shapes[method].kind;
}

/** One answer to a list method and the location of its entries. */
export interface ReadList {
  /** The location of the array. */
  readonly span: Span;
  /** `name` is the name, URI or template of an entry. */
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
  const { member, key, what, isPinned, resultMembers, entryMembers }: ListShape = shapes[method];
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
    if (isPinned && names.has(name)) throw unreadable(`two ${what} have the same ${key}`);
    names.add(name);
    return { name, span: element.span };
  });
  const nextCursor = stringAt(message, members.get('nextCursor'));
  return { span, entries, nextCursor, result, members };
}

function entryOf(what: string): string {
  return `a ${what.replace(/s$/, '')}`;
}

/** The refusal of a list that is too long, or that two parsers could read differently. */
export function unreadableList(method: ListMethod, why: string): GatewayRefusal {
  const detail = `its list of ${shapes[method].what} could not be read: ${why}`;
  return new GatewayRefusal(method === 'tools/list' ? 'unreadable_tools' : 'unreadable_list', {
    detail,
  });
}

export interface KnownMembers {
  readonly names: ReadonlySet<string>;
  /** The same names in lower case. */
  readonly lower: ReadonlySet<string>;
}

export function knownMembers(...names: string[]): KnownMembers {
  return { names: new Set(names), lower: new Set(names.map((name) => name.toLowerCase())) };
}

/** Refuses names of members that a case-insensitive parser could take for a known one. */
export function checkNames(
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
 * Removes the entries that the caller may not use from a list, and marks the list as private if it depends on the caller. Refuses
 * an answer that cannot be parsed. Returns `undefined` if every list passes unchanged.
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
    const steps = Steps.ofList();
    const edits = [
      ...(isPrivate ? privateEdits(bytes, list) : []),
      ...removals(list, ({ name }) => !rights.lists(kind, name, steps)),
    ];
    return edits.length > 0 ? message.changed(replaced(bytes, edits)) : message;
  };
}

const isPrivateText = '"private"';

/** Edits that mark a result as private, if it has hints for caches. */
export function privateEdits(
  bytes: Buffer,
  { result, members }: Pick<ReadList, 'result' | 'members'>,
): Edit[] {
  const scope = members.get('cacheScope');
  if (scope) {
    const isSame = bytes.toString('latin1', scope.start, scope.end) === isPrivateText;
    return isSame ? [] : [{ span: scope, text: isPrivateText }];
  }
  if (!members.has('ttlMs')) return [];
  const at = result.start + 1;
  return [{ span: { start: at, end: at }, text: `"cacheScope":${isPrivateText},` }];
}

/** Edits that remove entries from a list. The bytes around the other entries stay the same. */
export function removals(
  { entries }: Pick<ReadList, 'entries'>,
  isRemoved: (entry: ReadList['entries'][number]) => boolean,
): Edit[] {
  const edits: Edit[] = [];
  let isFirst = true;
  entries.forEach((entry, index) => {
    const { span } = entry;
    const [previous, next] = [entries[index - 1], entries[index + 1]];
    if (!isRemoved(entry)) isFirst = false;
    // Removed with the comma before it, or after it if no entry remains before it.
    else if (!isFirst && previous) {
      edits.push({ span: { start: previous.span.end, end: span.end }, text: '' });
    } else edits.push({ span: { start: span.start, end: next?.span.start ?? span.end }, text: '' });
  });
  return edits;
}

/** A `tools/list` answer without these tools; all other bytes stay the same. @throws {GatewayRefusal} `unreadable_tools` */
export function messageWithoutTools(message: Buffer, hidden: readonly string[]): Buffer {
  const isHidden = new Set(hidden);
  const list = listIn(message, 'tools/list');
  return list
    ? replaced(
        message,
        removals(list, ({ name }) => isHidden.has(name)),
      )
    : message;
}
