import type { Clock } from '#clock/clock';
import {
  errorAnswer,
  idKey,
  modernVersion,
  readMessage,
  stringAt,
  type Message,
} from 'latchkey-mcp/raw-message';
import { elementsIn } from 'latchkey-mcp/json-edit';
import { jsonMembers, type Span } from 'latchkey-mcp/json';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import type { Step } from './pipeline.ts';
import { type AcceptedToolStore, toolWatch } from './accepted-tools.ts';

export type ToolFilterOptions = {
  rules: ToolRules;
  /** What happens to tools that changed since they were accepted. */
  changed: 'flag' | 'withhold';
  store: AcceptedToolStore;
  /** The command with which the person accepts a changed tool. */
  remedy: string;
  clock: Clock;
  log: Log;
};

/**
 * Hides the tools that `rules` do not allow: they are neither listed nor callable, and calls of them do not reach the server.
 * Tools that changed since they were accepted are flagged or hidden as well. Other messages keep their bytes.
 */
export function toolFilter(options: ToolFilterOptions): Step {
  const { rules, changed, remedy, log } = options;
  const admits = admittedTools(rules);
  const withholds = changed === 'withhold';
  const restricts = withholds || rules.allow !== undefined || rules.deny !== undefined;
  const watch = toolWatch({ ...options, strict: withholds });
  /** Open requests for lists. Their answers may arrive on any stream. */
  const lists = new Map<string, { modern: boolean }>();

  function through(deliver: Deliver): Deliver {
    return (message) => {
      if (lists.size === 0 || message.kind !== 'response') return deliver(message);
      const key = idKey(message.id ?? 'null');
      const list = lists.get(key);
      if (!list) return deliver(message);
      lists.delete(key);
      return filtered(message, list, deliver);
    };
  }

  async function filtered(message: Message, list: { modern: boolean }, deliver: Deliver) {
    const tools = listedTools(message);
    if (!tools) return deliver(message);
    // Flagging alone does not delay the list.
    const seen = watch.see(tools);
    const closed = withholds ? (await seen).doubtful : new Set<string>();
    const rest = withoutTools(message, tools, ({ name }) => admits(name) && !closed.has(name));
    await deliver(rest);
    const reported = (await seen).changed.filter((name) => admits(name) && watch.isNew(name));
    for (const name of reported)
      log.warn('tool changed', { tool: name, withheld: withholds, remedy });
    if (reported.length > 0 && !list.modern) await deliver(notice(reported, withholds, remedy));
  }

  async function called(message: Message, deliver: Deliver, signal: AbortSignal, next: Upstream) {
    const name = stringAt(message, 'params', 'name');
    const isWithheld = name !== undefined && withholds && (await watch.isChanged(name));
    if (name !== undefined && (isWithheld || !admits(name))) return deliver(unknown(message, name));
    return next.send(message, through(deliver), signal);
  }

  async function listTools(
    message: Message,
    deliver: Deliver,
    signal: AbortSignal,
    next: Upstream,
  ) {
    const key = idKey(message.id ?? 'null');
    lists.set(key, { modern: modernVersion(message) !== undefined });
    try {
      await next.send(message, through(deliver), signal);
    } finally {
      lists.delete(key);
    }
  }

  return {
    name: 'tool filter',
    on: (next) => ({
      // Nearly every call passes unchanged, which costs no promise.
      send(message, deliver, signal) {
        if (restricts && message.method === 'tools/call')
          return called(message, deliver, signal, next);
        if (message.kind === 'request' && message.method === 'tools/list')
          return listTools(message, deliver, signal, next);
        return next.send(message, through(deliver), signal);
      },
      listen: async (deliver, signal) => next.listen(through(deliver), signal),
    }),
  };
}

/** The answer of servers to a call of a tool that they do not have. MCP 2025-11-25 tools, error handling */
function unknown({ id = 'null' }: Message, name: string): Message {
  return errorAnswer(id, { code: -32602, message: `Unknown tool: ${name}` });
}

/** Legacy assistants accept log messages at any time. MCP 2025-11-25 logging */
function notice(names: readonly string[], withheld: boolean, remedy: string): Message {
  const what = names.length === 1 ? `tool ${names[0]} has` : `tools ${names.join(', ')} have`;
  const data = `the ${what} changed since accepted${withheld ? ' and ' + (names.length === 1 ? 'is' : 'are') + ' hidden' : ''}; see ${remedy}`;
  const params = { level: 'warning', logger: 'latchkey', data };
  return readMessage(
    Buffer.from(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params })),
  );
}

/** The tools that the assistant may use: all, unless a list restricts them. `*` matches any text. */
export type ToolRules = { allow?: readonly string[]; deny?: readonly string[] };

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
    const members = typeof tool === 'object' && tool !== null ? { ...tool } : {};
    const name = 'name' in members && typeof members.name === 'string' ? members.name : '';
    return { name, tool: members, span: element };
  });
}

/** `answer` with only those `tools` that `stay`. All other bytes stay the same. */
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
