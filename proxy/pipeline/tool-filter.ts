import type { Clock } from '#clock/clock';
import { errorAnswer } from '#jsonrpc/answer';
import { idKey, readMessage, stringAt, type Message } from '#jsonrpc/message';
import { modernVersion } from '#jsonrpc/modern-version';
import type { Log } from '#log/log';
import type { Deliver, Upstream } from '#transport/upstream';
import type { AcceptedToolStore } from './accepted-tools.ts';
import { toolWatch } from './tool-watch.ts';
import { listedTools, withoutTools } from './tool-list.ts';
import { admittedTools, type ToolRules } from './tool-rules.ts';

export type ToolFilterOptions = {
  rules: ToolRules;
  /** What becomes of tools that are other than accepted. */
  changed: 'flag' | 'withhold';
  store: AcceptedToolStore;
  /** How the person shall accept a changed tool. */
  remedy: string;
  clock: Clock;
  log: Log;
};

/**
 * An upstream without the tools that `rules` keep back: neither listed nor callable, and the server does
 * not hear of the call. Tools that changed since they were accepted are flagged, or kept back likewise.
 * What is let through keeps its bytes.
 */
export function toolFilter(upstream: Upstream, options: ToolFilterOptions): Upstream {
  const { rules, changed, remedy, log } = options;
  const admits = admittedTools(rules);
  const withholds = changed === 'withhold';
  const keepsBack = withholds || rules.allow !== undefined || rules.deny !== undefined;
  const watch = toolWatch({ ...options, strict: withholds });
  /** Open requests for lists; their answers may come by whatever way. */
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
    // Who only wants to be told does not wait for it.
    const seen = watch.see(tools);
    const changedNames = withholds ? await seen : new Set<string>();
    const rest = withoutTools(
      message,
      tools,
      ({ name }) => admits(name) && !changedNames.has(name),
    );
    await deliver(rest);
    const news = [...(await seen)].filter((name) => admits(name) && watch.isNews(name));
    for (const name of news) log.warn('tool changed', { tool: name, withheld: withholds, remedy });
    if (news.length > 0 && !list.modern) await deliver(notice(news, withholds, remedy));
  }

  async function called(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const name = stringAt(message, 'params', 'name');
    const kept = name !== undefined && withholds && (await watch.isChanged(name));
    if (name !== undefined && (kept || !admits(name))) return deliver(unknown(message, name));
    return upstream.send(message, through(deliver), signal);
  }

  async function listTools(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const key = idKey(message.id ?? 'null');
    lists.set(key, { modern: modernVersion(message) !== undefined });
    try {
      await upstream.send(message, through(deliver), signal);
    } finally {
      lists.delete(key);
    }
  }

  return {
    // Nearly every call only passes, so that costs no promise.
    send(message, deliver, signal) {
      if (keepsBack && message.method === 'tools/call') return called(message, deliver, signal);
      if (message.kind === 'request' && message.method === 'tools/list')
        return listTools(message, deliver, signal);
      return upstream.send(message, through(deliver), signal);
    },
    listen: async (deliver, signal) => upstream.listen(through(deliver), signal),
    close: async (signal) => upstream.close(signal),
  };
}

/** What servers say of a tool that they do not have. MCP 2025-11-25 tools, error handling */
function unknown({ id = 'null' }: Message, name: string): Message {
  return errorAnswer(id, { code: -32602, message: `Unknown tool: ${name}` });
}

/** The era before lets a server say something unasked. MCP 2025-11-25 logging */
function notice(names: readonly string[], withheld: boolean, remedy: string): Message {
  const what = names.length === 1 ? `tool ${names[0]} has` : `tools ${names.join(', ')} have`;
  const data = `the ${what} changed since accepted${withheld ? ' and kept back' : ''}; see ${remedy}`;
  const params = { level: 'warning', logger: 'latchkey', data };
  return readMessage(
    Buffer.from(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params })),
  );
}
