import type { Clock } from '#clock/clock';
import {
  errorAnswer,
  idKey,
  modernVersion,
  stringAt,
  type Message,
} from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import type { Step } from './step.ts';
import { type AcceptedToolStore, toolWatch } from './accepted-tools.ts';
import { madeMessage } from './messages.ts';
import { admittedTools, listedTools, withoutTools, type ToolRules } from './tool-lists.ts';

export type ToolFilterOptions = {
  rules: ToolRules;
  /** Whether tools that changed since they were accepted are only reported, or hidden as well. */
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
      // Not `async`: nearly every call passes unchanged, and should not cost another promise.
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

/** The answer that a server gives to a call of a tool that it does not have. MCP 2025-11-25 tools, error handling */
function unknown({ id = 'null' }: Message, name: string): Message {
  return errorAnswer(id, { code: -32602, message: `Unknown tool: ${name}` });
}

/** Legacy assistants accept log messages at any time. MCP 2025-11-25 logging */
function notice(names: readonly string[], withheld: boolean, remedy: string): Message {
  const what = names.length === 1 ? `tool ${names[0]} has` : `tools ${names.join(', ')} have`;
  const data = `the ${what} changed since accepted${withheld ? ' and ' + (names.length === 1 ? 'is' : 'are') + ' hidden' : ''}; see ${remedy}`;
  const params = { level: 'warning', logger: 'latchkey', data };
  return madeMessage({ method: 'notifications/message', params });
}
