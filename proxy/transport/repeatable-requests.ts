import { stringAt, textAt, type Message } from '#jsonrpc/message';

/** Which requests may run twice without harm. */
export interface RepeatableRequests {
  has(request: Message): boolean;

  /** Takes note of what the answer to `tools/list` says of each tool. */
  learn(request: Message, answer: Message): void;
}

/** They read, or set something to what it is set to again. */
const methods = new Set([
  'initialize',
  'ping',
  'server/discover',
  'tools/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'resources/subscribe',
  'resources/unsubscribe',
  'prompts/list',
  'prompts/get',
  'completion/complete',
  'logging/setLevel',
  'tasks/get',
  'tasks/list',
  'tasks/result',
]);

/**
 * A tool is called twice only when the server's last list said that it only reads (`readOnlyHint`) or
 * that a second call changes nothing more (`idempotentHint`).
 *
 * MCP 2025-11-25 tools, annotations
 */
export function repeatableRequests(): RepeatableRequests {
  const tools = new Set<string>();
  return {
    has(request) {
      if (request.method !== 'tools/call') return methods.has(request.method ?? '');
      return tools.has(stringAt(request, 'params', 'name') ?? '');
    },
    learn(request, answer) {
      const listed = textAt(answer, 'result', 'tools');
      if (listed === undefined) return;
      if (stringAt(request, 'params', 'cursor') === undefined) tools.clear();
      for (const [name, harmless] of hints(JSON.parse(listed)))
        if (harmless) tools.add(name);
        else tools.delete(name);
    },
  };
}

function hints(tools: unknown): [name: string, harmless: boolean][] {
  if (!Array.isArray(tools)) return [];
  return tools.flatMap((tool): [string, boolean][] => {
    const { name, annotations } = members(tool);
    if (typeof name !== 'string') return [];
    const { readOnlyHint, idempotentHint } = members(annotations);
    return [[name, readOnlyHint === true || idempotentHint === true]];
  });
}

function members(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
