import { jsonElements } from '#jsonrpc/json-elements';
import { jsonMembers, type Span } from '#jsonrpc/json-members';
import { readMessage, type Message } from '#jsonrpc/message';
import { withMembers, type MemberChanges } from '#jsonrpc/with-members';

const added = ['resultType', 'ttlMs', 'cacheScope'];

/**
 * A modern server's answer to `method` as an assistant of the older era can read it: without the
 * members that came later, and without schemas and structured content that are no objects, for which
 * such an assistant would refuse the whole answer. The other bytes stay. Errors stay as they are.
 */
export function legacyAnswer(answer: Message, method: string | undefined): Message {
  const { bytes, members } = answer;
  const result = members.get('result');
  const within = result && jsonMembers(bytes, result);
  if (!within) return answer;
  const changes: Record<string, MemberChanges[string]> = {};
  for (const name of added) if (within.has(name)) changes[name] = undefined;
  const content = within.get('structuredContent');
  if (content && bytes[content.start] !== 0x7b) changes['structuredContent'] = undefined;
  const tools = method === 'tools/list' ? within.get('tools') : undefined;
  if (tools) changes['tools'] = plainTools(bytes, tools);
  if (Object.keys(changes).length === 0) return answer;
  const whole = { start: 0, end: bytes.length };
  const changed = withMembers(bytes, result, changes);
  return readMessage(withMembers(bytes, whole, { result: changed }));
}

function plainTools(bytes: Buffer, span: Span): Buffer {
  const tools = jsonElements(bytes, span);
  if (!tools) return bytes.subarray(span.start, span.end);
  const texts = tools.map((tool) => {
    const schema = jsonMembers(bytes, tool)?.get('outputSchema');
    return schema && !isObjectSchema(bytes, schema)
      ? withMembers(bytes, tool, { outputSchema: undefined })
      : bytes.subarray(tool.start, tool.end);
  });
  const parts = texts.flatMap((text, index) => (index === 0 ? [text] : [Buffer.from(','), text]));
  return Buffer.concat([Buffer.from('['), ...parts, Buffer.from(']')]);
}

function isObjectSchema(bytes: Buffer, schema: Span): boolean {
  const type = jsonMembers(bytes, schema)?.get('type');
  return type !== undefined && bytes.toString('utf8', type.start, type.end) === '"object"';
}
