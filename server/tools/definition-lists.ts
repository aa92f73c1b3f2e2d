import type { Span } from 'latchkey-mcp/json';
import { type Edit, elementsIn, membersIn, stringAt } from 'latchkey-mcp/json-edit';
import { isError, scanMessage } from 'latchkey-mcp/message';
import { unreadable } from '#gateway/filters';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import type { Definition, DefinitionKind } from '#model/definitions';
import {
  definitionOf,
  instructionsDefinition,
  type ListedKind,
  nameMembers,
} from './definition.ts';
import { exactJson } from './exact-json.ts';

/** The definitions in an answer. */
export interface ReadDefinitions {
  readonly kind: DefinitionKind;
  readonly definitions: readonly Definition[];
  /** Their places in the message, in the same order: of the elements of a list, or of the text of instructions. */
  readonly spans: readonly Span[];
  /** Whether no further page follows. */
  readonly isLast: boolean;
  /** The id of the answer. */
  readonly idSpan: Span | undefined;
}

interface ListShape {
  readonly kind: ListedKind;
  readonly member: string;
  /** What people call the elements. */
  readonly plural: string;
  readonly result: KnownMembers;
  readonly element: KnownMembers;
}

/** MCP 2025-11-25 and 2026-07-28 `ListToolsResult`, `ListPromptsResult`, `ListResourceTemplatesResult` */
const lists: Readonly<Record<string, ListShape>> = {
  'tools/list': {
    kind: 'tool',
    member: 'tools',
    plural: 'tools',
    result: knownMembers('tools', 'nextCursor', '_meta'),
    element: knownMembers(
      'name',
      'title',
      'description',
      'inputSchema',
      'outputSchema',
      'annotations',
      'icons',
      'execution',
      '_meta',
    ),
  },
  'prompts/list': {
    kind: 'prompt',
    member: 'prompts',
    plural: 'prompts',
    result: knownMembers('prompts', 'nextCursor', '_meta'),
    element: knownMembers('name', 'title', 'description', 'arguments', 'icons', '_meta'),
  },
  'resources/templates/list': {
    kind: 'template',
    member: 'resourceTemplates',
    plural: 'resource templates',
    result: knownMembers('resourceTemplates', 'nextCursor', '_meta'),
    element: knownMembers(
      'uriTemplate',
      'name',
      'title',
      'description',
      'mimeType',
      'annotations',
      'icons',
      '_meta',
    ),
  },
};

const introductionMembers = knownMembers('instructions');
const hintMembers = knownMembers(
  'title',
  'readOnlyHint',
  'destructiveHint',
  'idempotentHint',
  'openWorldHint',
);

/** More than any client shows. Each is compared with what was accepted. */
const mostElements = 10_000;

/** Whether answers to this method contain definitions. */
export function hasDefinitions(method: string): boolean {
  return Object.hasOwn(lists, method) || introduces(method);
}

/** Whether answers to this method contain the instructions of a server. */
export function introduces(method: string): boolean {
  return method === 'initialize' || method === 'server/discover';
}

/**
 * The definitions in an answer to `method`; `undefined` for an error. Anything that two parsers could read differently is refused,
 * because a client could see definitions that were not checked.
 *
 * @throws {GatewayRefusal} `unreadable_tools`, `upstream_unreadable`, also for a definition that could not be compared later
 */
export function readDefinitions(message: Buffer, method: string): ReadDefinitions | undefined {
  const shape = Object.hasOwn(lists, method) ? lists[method] : undefined;
  const refused = (why: string) => (shape ? unreadableList(shape.plural, why) : unreadable(why));
  const scan = scanMessage(message);
  if (scan.outcome === 'refused') {
    if (isError(message)) return undefined;
    throw refused(scan.reason);
  }
  const { kind, result, idSpan } = scan.envelope;
  if (kind !== 'response') throw refused('it is not a response');
  if (!result) return undefined;
  if (shape) return { ...listIn(message, result, shape), idSpan };
  return { ...instructionsIn(message, result), idSpan };
}

function listIn(
  message: Buffer,
  result: Span,
  { kind, member, plural, result: resultMembers, element }: ListShape,
): Omit<ReadDefinitions, 'idSpan'> {
  const refused = (why: string) => unreadableList(plural, why);
  const members = membersOf(message, result, resultMembers, refused);
  const span = members.get(member);
  const elements = span && elementsIn(message, span);
  if (!elements) throw refused(`${member} is not an array`);
  if (elements.length > mostElements) throw refused(`it has more than ${mostElements} ${plural}`);
  const names = new Set<string>();
  const definitions = elements.map((place) => {
    const name = stringAt(
      message,
      membersOf(message, place, element, refused).get(nameMembers[kind]),
    );
    if (name === undefined) throw refused(`one of its ${plural} has no name`);
    if (names.has(name)) throw refused(`two ${plural} have the same name`);
    names.add(name);
    const text = message.toString('utf8', place.start, place.end);
    const definition = definitionOf(kind, exactJson(text));
    if (!definition)
      throw refused(`the name of one of its ${plural} is empty, too long or not text`);
    return definition;
  });
  const cursor = members.get('nextCursor');
  const isLast = !cursor || message.toString('latin1', cursor.start, cursor.end) === 'null';
  return { kind, definitions, spans: elements, isLast };
}

function instructionsIn(message: Buffer, result: Span): Omit<ReadDefinitions, 'idSpan'> {
  const span = membersOf(message, result, introductionMembers, unreadable).get('instructions');
  const text = stringAt(message, span);
  const isAbsent = !span || message.toString('latin1', span.start, span.end) === 'null';
  if (text === undefined && !isAbsent) throw unreadable('its instructions are not text');
  const isThere = span !== undefined && text !== undefined && text !== '';
  return {
    kind: 'instructions',
    definitions: isThere ? [instructionsDefinition(text)] : [],
    spans: isThere ? [span] : [],
    isLast: true,
  };
}

/**
 * The members of a tool's annotations, if they are an object.
 *
 * @throws {GatewayRefusal} `unreadable_tools`
 */
export function hintsIn(message: Buffer, annotations: Span): ReadonlyMap<string, Span> | undefined {
  if (message[annotations.start] !== 0x7b) return undefined;
  return membersOf(message, annotations, hintMembers, (why) => unreadableList('tools', why));
}

export function unreadableList(plural: string, why: string): GatewayRefusal {
  return new GatewayRefusal('unreadable_tools', {
    detail: `its list of ${plural} could not be read: ${why}`,
  });
}

/** Edits that remove elements of an array. What surrounds the others keeps its bytes. */
export function removals(spans: readonly Span[], isRemoved: (index: number) => boolean): Edit[] {
  const edits: Edit[] = [];
  let isFirst = true;
  spans.forEach((span, index) => {
    const [previous, next] = [spans[index - 1], spans[index + 1]];
    if (!isRemoved(index)) isFirst = false;
    // With the comma in front, or behind if nothing remains in front.
    else if (!isFirst && previous) {
      edits.push({ span: { start: previous.end, end: span.end }, text: '' });
    } else edits.push({ span: { start: span.start, end: next?.start ?? span.end }, text: '' });
  });
  return edits;
}

interface KnownMembers {
  readonly names: ReadonlySet<string>;
  /** The same in lower case. */
  readonly lower: ReadonlySet<string>;
}

function knownMembers(...names: string[]): KnownMembers {
  return { names: new Set(names), lower: new Set(names.map((name) => name.toLowerCase())) };
}

/** The members of an object. Refuses names that a case-insensitive parser could take for a known one. */
function membersOf(
  message: Buffer,
  span: Span,
  { names, lower }: KnownMembers,
  refused: (why: string) => GatewayRefusal,
): ReadonlyMap<string, Span> {
  const members = membersIn(message, span);
  for (const name of members.keys()) {
    // For example U+017F, which some parsers read as `s`.
    if (!names.has(name) && lower.has(name.toUpperCase().toLowerCase())) {
      throw refused('the name of a member differs from a known one only in case');
    }
  }
  return members;
}
