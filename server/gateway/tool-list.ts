import type { Span } from 'latchkey-mcp/json';
import { elementsIn, membersIn, stringAt } from 'latchkey-mcp/json-edit';
import { isError, scanMessage } from 'latchkey-mcp/message';
import type { Filter } from './filters.ts';
import { GatewayRefusal } from './gateway-refusal.ts';
import { messageIn, type UpstreamRequest } from './upstream.ts';

/** An answer to `tools/list` and the location of its tools. */
export interface ToolList {
  /** The location of the array. */
  readonly span: Span;
  readonly tools: readonly { readonly name: string; readonly span: Span }[];
}

/** MCP 2025-11-25 and 2026-07-28 server/tools, `ListToolsResult` and `Tool` */
const resultMembers = knownMembers('tools', 'nextCursor', '_meta');
const toolMembers = knownMembers(
  'name',
  'title',
  'description',
  'inputSchema',
  'outputSchema',
  'annotations',
  'icons',
  'execution',
  '_meta',
);

/** More than any client shows. Each tool is compared with what was accepted. */
const maxTools = 10_000;

/**
 * The tools in an answer to `tools/list`; `undefined` for an error. Anything that two parsers could read differently
 * is refused, because a client could see tools that were not checked.
 *
 * @throws {GatewayRefusal} `unreadable_tools`
 */
export function toolsIn(message: Buffer): ToolList | undefined {
  const scan = scanMessage(message);
  if (scan.outcome === 'refused') {
    if (isError(message)) return undefined;
    throw unreadableTools(scan.reason);
  }
  const { kind, root } = scan.envelope;
  if (kind !== 'response') throw unreadableTools('it is not a response');
  const result = membersIn(message, root).get('result');
  if (!result) return undefined;
  const span = membersOf(message, result, resultMembers).get('tools');
  if (!span || message[span.start] !== 0x5b) throw unreadableTools('tools is not an array');
  const elements = elementsIn(message, span) ?? [];
  if (elements.length > maxTools) throw unreadableTools(`it has more than ${maxTools} tools`);
  const names = new Set<string>();
  const tools = elements.map((tool) => {
    const name = stringAt(message, membersOf(message, tool, toolMembers).get('name'));
    if (name === undefined) throw unreadableTools('a tool has no name');
    if (names.has(name)) throw unreadableTools('two tools have the same name');
    names.add(name);
    return { name, span: tool };
  });
  return { span, tools };
}

export function unreadableTools(why: string): GatewayRefusal {
  return new GatewayRefusal('unreadable_tools', {
    detail: `its list of tools could not be read: ${why}`,
  });
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
): ReadonlyMap<string, Span> {
  const members = membersIn(message, span);
  for (const name of members.keys()) {
    // For example U+017F, which some parsers read as `s`.
    if (!names.has(name) && lower.has(name.toUpperCase().toLowerCase())) {
      throw unreadableTools('the name of a member differs from a known one only in case');
    }
  }
  return members;
}

/**
 * Removes hidden tools from a `tools/list` answer. An answer that cannot be parsed is refused rather than passed on.
 * `undefined` if nothing is hidden.
 */
export function hideTools(hidden: readonly string[]): Filter | undefined {
  if (hidden.length === 0) return undefined;
  return (message) => message.changed(messageWithoutTools(message.bytes, hidden));
}

/**
 * A `tools/list` answer without these tools; all other bytes stay the same.
 *
 * @throws {GatewayRefusal} `unreadable_tools`
 */
export function messageWithoutTools(message: Buffer, hidden: readonly string[]): Buffer {
  const list = toolsIn(message);
  if (!list) return message;
  const isHidden = new Set(hidden);
  const kept = list.tools.filter(({ name }) => !isHidden.has(name));
  if (kept.length === list.tools.length) return message;
  const comma = Buffer.from(',');
  return Buffer.concat([
    message.subarray(0, list.span.start + 1),
    ...kept.flatMap(({ span }, i) => {
      const tool = message.subarray(span.start, span.end);
      return i > 0 ? [comma, tool] : [tool];
    }),
    message.subarray(list.span.end - 1),
  ]);
}

/** Whether a request to an upstream asks for a list of tools. */
export function asksForTools(request: UpstreamRequest): boolean {
  return messageIn(request)?.envelope.method === 'tools/list';
}
