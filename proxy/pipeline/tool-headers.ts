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

const headerMismatch = '-32020';
const maxPages = 100;
/** The number of a server's tools whose headers are kept. Calls of other tools are refused first, and then repeated. */
const maxTools = 1000;
const maxCharacters = 1024 * 1024;

/**
 * Reads the headers that calls require from the lists of tools of a modern server, and removes tools with invalid annotations.
 * If a call is refused because its headers were not known yet, requests the list and repeats the call.
 *
 * MCP 2026-07-28 server tools, x-mcp-header; SEP-2243
 */
export class ToolHeaders implements Step {
  readonly name = 'tool headers';
  readonly #log: Log;
  /** The parameters of the latest list that become headers, by tool. */
  readonly #tools = new Map<string, MirroredParameter[]>();
  #characters = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  /** The headers that a call of a known tool requires. */
  headers(message: Message): Record<string, string> {
    if (message.method !== 'tools/call' || this.#tools.size === 0) return {};
    const known = this.#tools.get(stringAt(message, 'params', 'name') ?? '');
    if (!known) return {};
    return parameterHeaders(known, (path) => textAt(message, 'params', 'arguments', ...path));
  }

  on(next: Upstream): Pick<Upstream, 'send'> {
    return {
      send: (message, deliver, signal) => {
        const { method } = message;
        const isList = method === 'tools/list';
        if ((!isList && method !== 'tools/call') || modernVersion(message) === undefined)
          return next.send(message, deliver, signal);
        if (!isList) return this.#call(next, message, deliver, signal);
        const isFirst = stringAt(message, 'params', 'cursor') === undefined;
        const take: Deliver = async (received) =>
          deliver(received.kind === 'response' ? this.#readList(received, { isFirst }) : received);
        return next.send(message, take, signal);
      },
    };
  }

  async #call(
    upstream: Upstream,
    message: Message,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    let refused = false;
    const take: Deliver = async (received) => {
      refused =
        received.kind === 'response' && textAt(received, 'error', 'code') === headerMismatch;
      if (!refused) await deliver(received);
    };
    await upstream.send(message, take, signal);
    if (!refused) return;
    this.#log.info('call refused because of its headers, requesting the list of tools', {});
    await this.#requestList(upstream, message, signal);
    await upstream.send(message, deliver, signal);
  }

  async #requestList(upstream: Upstream, call: Message, signal: AbortSignal): Promise<void> {
    const meta = textAt(call, 'params', '_meta') ?? '{}';
    const wanted = stringAt(call, 'params', 'name');
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page += 1) {
      const at = cursor === undefined ? '' : `,"cursor":${JSON.stringify(cursor)}`;
      const request = `{"jsonrpc":"2.0","id":"latchkey-tools-${page}","method":"tools/list","params":{"_meta":${meta}${at}}}`;
      cursor = undefined;
      const take: Deliver = (received) => {
        if (received.kind === 'response') {
          const list = this.#readList(received, { wanted, isFirst: page === 0 });
          cursor = stringAt(list, 'result', 'nextCursor');
        }
        return Promise.resolve();
      };
      await upstream.send(readMessage(Buffer.from(request)), take, signal);
      if (cursor === undefined) return;
    }
  }

  /**
   * Reads the tools of an answer, and returns the answer without the tools whose annotations are invalid. The first page of a
   * list replaces the previous list.
   */
  #readList(answer: Message, page: { wanted?: string | undefined; isFirst: boolean }): Message {
    const result = answer.members.get('result');
    const list = result && jsonMembers(answer.bytes, result)?.get('tools');
    const elements = list && elementsIn(answer.bytes, list);
    if (!result || !elements) return answer;
    if (page.isFirst) {
      this.#tools.clear();
      this.#characters = 0;
    }
    const valid = elements.filter((element) => this.#readTool(answer.bytes, element, page.wanted));
    if (valid.length === elements.length) return answer;
    const array = valid
      .map(({ start, end }) => answer.bytes.toString('utf8', start, end))
      .join(',');
    const whole = { start: 0, end: answer.bytes.length };
    const changed = withMembers(answer.bytes, result, { tools: `[${array}]` });
    return readMessage(withMembers(answer.bytes, whole, { result: changed }));
  }

  /** Returns whether the annotations are valid. The tool that is `wanted` is kept even if there are too many. */
  #readTool(bytes: Buffer, { start, end }: Span, wanted: string | undefined): boolean {
    if (!bytes.subarray(start, end).includes('x-mcp-header')) return true;
    const tool: { name?: unknown; inputSchema?: unknown } = JSON.parse(
      bytes.toString('utf8', start, end),
    );
    const name = String(tool.name);
    const parameters = mirroredParameters(tool.inputSchema);
    this.#tools.delete(name);
    if (parameters) {
      this.#characters += end - start;
      const isFull = this.#tools.size >= maxTools || this.#characters > maxCharacters;
      if (!isFull || name === wanted) this.#tools.set(name, parameters);
    } else {
      this.#log.warn('tool removed: its x-mcp-header annotations are invalid', { tool: name });
    }
    return parameters !== undefined;
  }
}
