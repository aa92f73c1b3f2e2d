import { GatewayRefusal } from './gateway-refusal.ts';
import { elementsIn, membersIn, stringAt } from './json-parts.ts';
import { isError, scanMessage } from './json-scan.ts';
import type { Span } from './strict-json.ts';

/** An answer to `tools/list`, and where its tools are. */
export interface ToolList {
  /** The array. */
  readonly span: Span;
  readonly tools: readonly { readonly name: string; readonly span: Span }[];
}

/** MCP 2025-11-25 and 2026-07-28 server/tools, `ListToolsResult` and `Tool` */
const resultMembers: ReadonlySet<string> = new Set(['tools', 'nextCursor', '_meta']);
const toolMembers: ReadonlySet<string> = new Set([
  'name',
  'title',
  'description',
  'inputSchema',
  'outputSchema',
  'annotations',
  'icons',
  'execution',
  '_meta',
]);

/**
 * The tools in an answer to `tools/list`; `undefined` for an error. What two readers could understand differently is
 * refused: a client would be shown tools that were not looked at.
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
  if (kind !== 'response') throw unreadableTools('it is no response');
  const result = membersIn(message, root).get('result');
  if (!result) return undefined;
  const span = membersOf(message, result, resultMembers).get('tools');
  if (!span || message[span.start] !== 0x5b) throw unreadableTools('tools is no array');
  const names = new Set<string>();
  const tools = elementsIn(message, span).map((tool) => {
    const name = stringAt(message, membersOf(message, tool, toolMembers).get('name'));
    if (name === undefined) throw unreadableTools('a tool has no name');
    if (names.has(name)) throw unreadableTools('two tools have one name');
    names.add(name);
    return { name, span: tool };
  });
  return { span, tools };
}

export function unreadableTools(why: string): GatewayRefusal {
  return new GatewayRefusal('unreadable_tools', {
    detail: `its list of tools cannot be read: ${why}`,
  });
}

/** The members of an object, of which none may be taken for a known one by who does not mind the case. */
function membersOf(
  message: Buffer,
  span: Span,
  known: ReadonlySet<string>,
): ReadonlyMap<string, Span> {
  const members = membersIn(message, span);
  const lower = new Set([...known].map((name) => name.toLowerCase()));
  for (const name of members.keys()) {
    // As U+017F, which is an `s` to some readers.
    if (!known.has(name) && lower.has(name.toUpperCase().toLowerCase())) {
      throw unreadableTools('a member differs from a known one in case only');
    }
  }
  return members;
}
