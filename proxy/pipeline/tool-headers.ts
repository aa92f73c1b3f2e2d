import { elementsIn, withMembers } from 'latchkey-mcp/json-edit';
import { jsonMembers, type Span } from 'latchkey-mcp/json';
import {
  modernVersion,
  readMessage,
  stringAt,
  textAt,
  type Message,
} from 'latchkey-mcp/raw-message';
import { mirroredParameters, parameterHeaders, type MirroredParameter } from 'latchkey-mcp/headers';
import type { Deliver, Upstream } from '#transport/upstream';
import type { Step } from './step.ts';
import type { Log } from '#log/log';

/** What later calls need to know from the lists of tools of one connection. */
export interface ToolHeaders {
  /** The headers that a call of a known tool requires. */
  headers(message: Message): Record<string, string>;

  /** Reads the lists of tools that pass. */
  step: Step;
}

const headerMismatch = '-32020';
const maxPages = 100;
/** Of one server. The headers of more are learned again for each call that is refused. */
const maxTools = 1000;
const maxCharacters = 1024 * 1024;

/**
 * Reads the headers that calls require from the lists of tools of a modern server, and removes tools with invalid annotations.
 * If a call is refused because its headers were not known yet, requests the list and repeats the call.
 *
 * MCP 2026-07-28 server tools, x-mcp-header; SEP-2243
 */
export function toolHeaders(log: Log): ToolHeaders {
  /** Of the latest list. */
  const tools = new Map<string, MirroredParameter[]>();
  let characters = 0;

  /** A list of tools without those whose annotations are invalid. The first page of a list replaces the list before. */
  function learned(answer: Message, wanted?: string, isFirst = true): Message {
    const result = answer.members.get('result');
    const list = result && jsonMembers(answer.bytes, result)?.get('tools');
    const elements = list && elementsIn(answer.bytes, list);
    if (!result || !elements) return answer;
    if (isFirst) {
      tools.clear();
      characters = 0;
    }
    const kept = elements.filter((element) => learn(answer.bytes, element, wanted));
    if (kept.length === elements.length) return answer;
    const array = kept.map(({ start, end }) => answer.bytes.toString('utf8', start, end)).join(',');
    const whole = { start: 0, end: answer.bytes.length };
    const changed = withMembers(answer.bytes, result, { tools: `[${array}]` });
    return readMessage(withMembers(answer.bytes, whole, { result: changed }));
  }

  function learn(bytes: Buffer, { start, end }: Span, wanted: string | undefined): boolean {
    if (!bytes.subarray(start, end).includes('x-mcp-header')) return true;
    const tool: { name?: unknown; inputSchema?: unknown } = JSON.parse(
      bytes.toString('utf8', start, end),
    );
    const name = String(tool.name);
    const parameters = mirroredParameters(tool.inputSchema);
    tools.delete(name);
    if (parameters) {
      characters += end - start;
      const isFull = tools.size >= maxTools || characters > maxCharacters;
      if (!isFull || name === wanted) tools.set(name, parameters);
    } else {
      log.warn('tool removed: its x-mcp-header annotations are invalid', { tool: name });
    }
    return parameters !== undefined;
  }

  async function relist(upstream: Upstream, call: Message, signal: AbortSignal): Promise<void> {
    const meta = textAt(call, 'params', '_meta') ?? '{}';
    const wanted = stringAt(call, 'params', 'name');
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page += 1) {
      const at = cursor === undefined ? '' : `,"cursor":${JSON.stringify(cursor)}`;
      const request = `{"jsonrpc":"2.0","id":"latchkey-tools-${page}","method":"tools/list","params":{"_meta":${meta}${at}}}`;
      cursor = undefined;
      const learning: Deliver = (received) => {
        if (received.kind === 'response')
          cursor = stringAt(learned(received, wanted, page === 0), 'result', 'nextCursor');
        return Promise.resolve();
      };
      await upstream.send(readMessage(Buffer.from(request)), learning, signal);
      if (cursor === undefined) return;
    }
  }

  async function carry(
    upstream: Upstream,
    message: Message,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    let refused = false;
    await upstream.send(
      message,
      async (received) => {
        refused =
          received.kind === 'response' && textAt(received, 'error', 'code') === headerMismatch;
        if (!refused) await deliver(received);
      },
      signal,
    );
    if (!refused) return;
    log.info('call refused because of its headers, requesting the list of tools', {});
    await relist(upstream, message, signal);
    await upstream.send(message, deliver, signal);
  }

  return {
    headers(message) {
      if (message.method !== 'tools/call' || tools.size === 0) return {};
      const known = tools.get(stringAt(message, 'params', 'name') ?? '');
      if (!known) return {};
      return parameterHeaders(known, (path) => textAt(message, 'params', 'arguments', ...path));
    },
    step: {
      name: 'tool headers',
      on: (next) => ({
        send(message, deliver, signal) {
          const { method } = message;
          const listing = method === 'tools/list';
          if ((!listing && method !== 'tools/call') || modernVersion(message) === undefined)
            return next.send(message, deliver, signal);
          if (!listing) return carry(next, message, deliver, signal);
          const isFirst = stringAt(message, 'params', 'cursor') === undefined;
          const take: Deliver = async (received) =>
            deliver(
              received.kind === 'response' ? learned(received, undefined, isFirst) : received,
            );
          return next.send(message, take, signal);
        },
      }),
    },
  };
}
