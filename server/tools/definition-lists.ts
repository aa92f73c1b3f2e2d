import type { Span } from 'latchkey-mcp/json';
import { membersIn, stringAt } from 'latchkey-mcp/json-edit';
import { isError, type Scan, scanMessage } from 'latchkey-mcp/message';
import { unreadable } from '#gateway/filters';
import type { GatewayRefusal } from '#gateway/gateway-refusal';
import {
  checkNames,
  isPinnedList,
  knownMembers,
  listedKind,
  listIn,
  type ListMethod,
  unreadableList,
} from '#gateway/tool-list';
import type { Definition, DefinitionKind } from '#model/definitions';
import { toolHints } from '#model/tool-correction';
import { definitionOf, instructionsDefinition } from './definition.ts';
import { exactJson } from './exact-json.ts';

/** The definitions in an answer. */
export interface ReadDefinitions {
  readonly kind: DefinitionKind;
  readonly definitions: readonly Definition[];
  /** The places of the definitions in the message, in the same order: the elements of a list, or the text of instructions. */
  readonly spans: readonly Span[];
  /** Whether no further page follows. */
  readonly isLast: boolean;
  /** The place of the answer's id in the message. */
  readonly idSpan: Span | undefined;
}

const introductionMembers = knownMembers('instructions');
const hintMembers = knownMembers('title', ...toolHints);

/**
 * The definitions in an answer to `method`; `undefined` for an error. Anything that two parsers could read differently is refused,
 * because a client could see definitions that were not checked.
 *
 * @throws {GatewayRefusal} from `unreadableDefinitions`, also for a definition that could not be compared later
 */
export function readDefinitions(message: Buffer, method: string): ReadDefinitions | undefined {
  const scan = scanMessage(message);
  if (isPinnedList(method)) return listedDefinitions(message, method, scan);
  if (scan.outcome === 'refused') {
    if (isError(message)) return undefined;
    throw unreadable(scan.reason);
  }
  const { kind, result, idSpan } = scan.envelope;
  if (kind !== 'response') throw unreadable('it is not a response');
  return result && { ...instructionsIn(message, result), idSpan };
}

/** The refusal of an answer to `method` that cannot be checked: `unreadable_tools`, `unreadable_list`, `upstream_unreadable` */
export function unreadableDefinitions(method: string, why: string): GatewayRefusal {
  return isPinnedList(method) ? unreadableList(method, why) : unreadable(why);
}

function listedDefinitions(
  message: Buffer,
  method: ListMethod,
  scan: Scan,
): ReadDefinitions | undefined {
  const list = listIn(message, method, scan);
  const kind = listedKind(method);
  if (!list || kind === 'resource') return undefined;
  const definitions = list.entries.map(({ span }) => {
    const text = message.toString('utf8', span.start, span.end);
    const definition = definitionOf(kind, exactJson(text));
    if (definition) return definition;
    throw unreadableList(method, 'the name of an entry is empty, too long or not text');
  });
  const cursor = list.members.get('nextCursor');
  const isLast = !cursor || message.toString('latin1', cursor.start, cursor.end) === 'null';
  const idSpan = scan.outcome === 'message' ? scan.envelope.idSpan : undefined;
  return { kind, definitions, spans: list.entries.map(({ span }) => span), isLast, idSpan };
}

function instructionsIn(message: Buffer, result: Span): Omit<ReadDefinitions, 'idSpan'> {
  const members = membersIn(message, result);
  checkNames(members, introductionMembers, unreadable);
  const span = members.get('instructions');
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
  const members = membersIn(message, annotations);
  checkNames(members, hintMembers, (why) => unreadableList('tools/list', why));
  return members;
}
