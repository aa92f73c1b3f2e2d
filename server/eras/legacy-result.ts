import { elementsIn, membersIn } from '#gateway/json-parts';
import type { Span } from '#gateway/strict-json';
import { messageOf, spanAt, textAt, valueAt, type Message } from './message.ts';
import { withMembers, type MemberChanges } from './with-members.ts';

const added = ['resultType', 'ttlMs', 'cacheScope'];
const openBrace = 0x7b;

/**
 * A modern upstream's response to `method` as a caller of the older era reads it, under that caller's id
 * (JSON text): without the members that came later, and without schemas and structured content that are
 * no objects, for which such a caller would refuse the whole answer. Every other value keeps its bytes.
 */
export function legacyResult(response: Message, method: string, id: string): Message {
  const { body, envelope } = response;
  const result = spanAt(response, 'result');
  const changes = result ? { result: legacyOf(body, result, method) } : legacyError(response);
  return messageOf(withMembers(body, envelope.root, { id, ...changes }));
}

function legacyOf(body: Buffer, result: Span, method: string): string {
  const members = membersIn(body, result);
  const changes: Record<string, string | undefined> = {};
  for (const name of added) changes[name] = undefined;
  const content = members.get('structuredContent');
  if (content && body[content.start] !== openBrace) changes['structuredContent'] = undefined;
  const tools = method === 'tools/list' ? members.get('tools') : undefined;
  if (tools)
    changes['tools'] = `[${elementsIn(body, tools)
      .map((tool) => plainTool(body, tool))
      .join(',')}]`;
  return withMembers(body, result, changes);
}

function plainTool(body: Buffer, tool: Span): string {
  const schema = membersIn(body, tool).get('outputSchema');
  const type = schema && membersIn(body, schema).get('type');
  const isObject = type && body.toString('utf8', type.start, type.end) === '"object"';
  if (!schema || isObject) return body.toString('utf8', tool.start, tool.end);
  return withMembers(body, tool, { outputSchema: undefined });
}

/** A resource that is not there had a code of its own. MCP 2025-11-25 resources, "Error Handling" */
function legacyError(response: Message): MemberChanges {
  const isMissing =
    valueAt(response, 'error', 'code') === -32602 &&
    textAt(response, 'error', 'data', 'uri') !== undefined;
  if (!isMissing) return {};
  const error = withMembers(response.body, spanAt(response, 'error'), { code: '-32002' });
  return { error };
}
