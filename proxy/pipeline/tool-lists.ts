import { membersOf } from 'latchkey-mcp/json-value';
import { elementsIn } from 'latchkey-mcp/json-edit';
import { jsonMembers, type Span } from 'latchkey-mcp/json';
import { readMessage, type Message } from 'latchkey-mcp/raw-message';

/** The tools that the assistant may use: all, unless a list restricts them. `*` matches any text. */
export type ToolRules = {
  allow?: readonly string[] | undefined;
  deny?: readonly string[] | undefined;
};

/** Whether `rules` admit a tool with that name. `deny` takes precedence over `allow`. */
export function admittedTools({ allow, deny }: ToolRules): (name: string) => boolean {
  const allowed = allow?.map(pattern);
  const denied = deny?.map(pattern) ?? [];
  return (name) =>
    (allowed?.some((shape) => shape.test(name)) ?? true) &&
    !denied.some((shape) => shape.test(name));
}

function pattern(glob: string): RegExp {
  const parts = glob.split('*').map((part) => part.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's');
}

/** A tool of a list, and its position in the message. */
export type ListedTool = { name: string; tool: Readonly<Record<string, unknown>>; span: Span };

/** The tools in the answer to `tools/list`; `undefined` if it contains no list, as in an error. */
export function listedTools(answer: Message): ListedTool[] | undefined {
  const span = toolsSpan(answer);
  const elements = span && elementsIn(answer.bytes, span);
  return elements?.map((element) => {
    const tool: unknown = JSON.parse(answer.bytes.toString('utf8', element.start, element.end));
    const members = membersOf(tool);
    const name = typeof members['name'] === 'string' ? members['name'] : '';
    return { name, tool: members, span: element };
  });
}

/** `answer` with only the `tools` for which `stay` returns `true`. All other bytes stay the same. */
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
