import { jsonElements } from '#jsonrpc/json-elements';
import { jsonMembers, type Span } from '#jsonrpc/json-members';
import { readMessage, type Message } from '#jsonrpc/message';

/** One tool of a listing and where it stands in the message. */
export type ListedTool = { name: string; tool: Readonly<Record<string, unknown>>; span: Span };

/** The tools in the answer to `tools/list`; `undefined` when it holds none, as an error does not. */
export function listedTools(answer: Message): ListedTool[] | undefined {
  const span = toolsSpan(answer);
  const elements = span && jsonElements(answer.bytes, span);
  return elements?.map((element) => {
    const tool: unknown = JSON.parse(answer.bytes.toString('utf8', element.start, element.end));
    const members = typeof tool === 'object' && tool !== null ? { ...tool } : {};
    const name = 'name' in members && typeof members.name === 'string' ? members.name : '';
    return { name, tool: members, span: element };
  });
}

/** `answer` with those `tools` alone that are to `stay`; every other byte is its own. */
export function withoutTools(
  answer: Message,
  tools: readonly ListedTool[],
  stay: (tool: ListedTool) => boolean,
): Message {
  const kept = tools.filter(stay);
  const span = toolsSpan(answer);
  if (!span || kept.length === tools.length) return answer;
  const { bytes } = answer;
  const comma = Buffer.from(',');
  const parts = kept.flatMap(({ span: { start, end } }, index) =>
    index === 0 ? [bytes.subarray(start, end)] : [comma, bytes.subarray(start, end)],
  );
  return readMessage(
    Buffer.concat([bytes.subarray(0, span.start + 1), ...parts, bytes.subarray(span.end - 1)]),
  );
}

function toolsSpan({ bytes, members }: Message): Span | undefined {
  const result = members.get('result');
  return result && jsonMembers(bytes, result)?.get('tools');
}
