import { type MirroredParameter, mirroredParameters, parameterHeaders } from 'latchkey-mcp/headers';
import type { Span } from 'latchkey-mcp/json';
import { elementsIn, membersIn, stringAt } from 'latchkey-mcp/json-edit';
import { type Message, readMessage, spanAt, textAt } from 'latchkey-mcp/message';
import type { Target } from '#model/endpoints';
import { LimitedMap } from '#model/limited-map';
import { upstreamLocation } from '#model/upstream-kinds';
import { responseBytes, wholeBody } from './answers.ts';
import { messageWithoutTools } from './tool-list.ts';
import { messageIn, type Upstream, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';

const maxServers = 1000;
const maxPages = 100;
/** The most tools that are kept for one server. The parameters of other tools are learned again for each refused call. */
const maxTools = 1000;
const maxCharacters = 64 * 1024;
/**
 * The most mirrored parameters of one tool. Together, their header names stay below the 16 KiB of headers that servers
 * accept.
 */
const maxParameters = 100;
const maxHeaderLength = 128;
const headerMismatch = -32020;
const annotation = Buffer.from('x-mcp-header');

/** Sends a request to an upstream. */
type Send = Upstream['send'];

/** The declarations on one page of a tool list. */
interface Learned {
  /** The mirrored parameters, by tool name; none for a tool without any. */
  readonly tools: ReadonlyMap<string, readonly MirroredParameter[]>;
  /** The names of tools with invalid annotations. */
  readonly invalid: readonly string[];
  readonly cursor: string | undefined;
}

/**
 * Adds the headers in which modern upstreams want tool arguments repeated, for legacy callers, who do not send them.
 * The upstream's tool lists declare these headers. Lists are read as they pass, and requested when a call is refused
 * because of a missing header; only the latest list is kept. Tools with invalid annotations are removed from lists.
 *
 * MCP 2026-07-28 transports, "Custom Headers from Tool Parameters"
 */
export class MirroredArguments {
  /** The least recently listed or called server first. */
  readonly #tools = new LimitedMap<string, MirroredTools>(maxServers);

  /** How much is kept for all servers together. */
  get size(): { readonly servers: number; readonly tools: number; readonly characters: number } {
    const kept = [...this.#tools.values()];
    const sum = (of: (tools: MirroredTools) => number) =>
      kept.reduce((all, one) => all + of(one), 0);
    return {
      servers: kept.length,
      tools: sum(({ size }) => size),
      characters: sum(({ characters }) => characters),
    };
  }

  /** Sends a request: a tool call with its mirrored arguments, and anything else as it is. Reads tool lists as they pass. */
  send(request: UpstreamRequest, target: Target, send: Send): Promise<UpstreamAnswer> {
    const method = request.headers['mcp-method'];
    if (method === 'tools/call') return this.#call(request, send, target);
    if (method === 'tools/list') return this.#list(request, send, target);
    return send(request);
  }

  async #call(request: UpstreamRequest, send: Send, target: Target): Promise<UpstreamAnswer> {
    const tools = this.#toolsOf(target);
    const call = tools.size > 0 ? messageIn(request) : undefined;
    const carried = withArguments(request, call, tools.of(call?.envelope.name));
    const answer = await send(carried);
    if (answer.status !== 400 || answer.mediaType !== 'application/json') return answer;
    const body = await wholeBody(answer.body);
    if (!isMismatch(body)) return { ...answer, body };
    const refused = messageIn(request);
    const parameters = refused && (await relist(request, { call: refused, send, tools }));
    const again = withArguments(request, refused, parameters);
    const isSame = JSON.stringify(again.headers) === JSON.stringify(carried.headers);
    // The upstream refused the call, so it did not execute it.
    return isSame ? { ...answer, body } : send(again);
  }

  async #list(request: UpstreamRequest, send: Send, target: Target): Promise<UpstreamAnswer> {
    const answer = await send(request);
    if (answer.status !== 200) return answer;
    const message = await responseBytes(answer);
    const learned = learn(message);
    this.#toolsOf(target).note(learned, { isFirst: !hasCursor(request) });
    const { invalid } = learned;
    const body = invalid.length > 0 ? messageWithoutTools(message, invalid) : message;
    return { ...answer, mediaType: 'application/json', body };
  }

  #toolsOf(target: Target): MirroredTools {
    const place = `${target.id} ${upstreamLocation(target.upstream)}`;
    const tools = this.#tools.get(place) ?? new MirroredTools();
    this.#tools.set(place, tools);
    return tools;
  }
}

/** The mirrored parameters of the tools that one server listed last. */
class MirroredTools {
  readonly #tools = new Map<string, readonly MirroredParameter[]>();
  #characters = 0;

  get size(): number {
    return this.#tools.size;
  }

  get characters(): number {
    return this.#characters;
  }

  of(name = ''): readonly MirroredParameter[] | undefined {
    return this.#tools.get(name);
  }

  /** Keeps the declarations of a page. The first page of a list replaces the previous list. */
  note({ tools }: Learned, { isFirst }: { readonly isFirst: boolean }): void {
    if (isFirst) for (const name of this.#tools.keys()) this.#forget(name);
    for (const [name, parameters] of tools) {
      this.#forget(name);
      const characters = lengthOf(name, parameters);
      const isFull = this.#tools.size >= maxTools || this.#characters + characters > maxCharacters;
      if (parameters.length === 0 || isFull) continue;
      this.#tools.set(name, parameters);
      this.#characters += characters;
    }
  }

  #forget(name: string): void {
    const known = this.#tools.get(name);
    if (!known) return;
    this.#tools.delete(name);
    this.#characters -= lengthOf(name, known);
  }
}

function lengthOf(name: string, parameters: readonly MirroredParameter[]): number {
  const lengths = parameters.map(({ path, header }) => header.length + path.join().length);
  return lengths.reduce((sum, length) => sum + length, name.length);
}

interface Refused {
  readonly call: Message;
  readonly send: Send;
  readonly tools: MirroredTools;
}

/** Requests the list of tools on behalf of the caller. Returns the mirrored parameters of the tool that it calls. */
async function relist(
  { headers: called, signal }: UpstreamRequest,
  { call, send, tools }: Refused,
): Promise<readonly MirroredParameter[] | undefined> {
  const named = Object.entries(called).filter(([name]) => name !== 'mcp-name');
  const headers = { ...Object.fromEntries(named), 'mcp-method': 'tools/list' };
  const meta = textAt(call, 'params', '_meta');
  let cursor: string | undefined;
  let found: readonly MirroredParameter[] | undefined;
  for (let page = 0; page < maxPages; page += 1) {
    const params = [
      ...(meta === undefined ? [] : [`"_meta":${meta}`]),
      ...(cursor === undefined ? [] : [`"cursor":${JSON.stringify(cursor)}`]),
    ];
    const text = Buffer.from(
      `{"jsonrpc":"2.0","id":"tools-${page}","method":"tools/list","params":{${params.join()}}}`,
    );
    const answer = await send({ method: 'POST', headers, body: text, signal });
    const learned = learn(await responseBytes(answer));
    if (!(answer.body instanceof Uint8Array)) answer.body.letGo?.();
    tools.note(learned, { isFirst: page === 0 });
    // Kept here, because `tools` may change when another call requests the list, and does not keep everything.
    found = learned.tools.get(call.envelope.name ?? '') ?? found;
    ({ cursor } = learned);
    if (cursor === undefined) break;
  }
  return found;
}

/** Reads the declarations on a page of a list. */
function learn(bytes: Buffer): Learned {
  const tools = new Map<string, readonly MirroredParameter[]>();
  const invalid: string[] = [];
  const list = readMessage(bytes);
  const result = list && spanAt(list, 'result');
  const members = result && membersIn(bytes, result);
  const listed = members?.get('tools');
  for (const { start, end } of (listed && elementsIn(bytes, listed)) ?? []) {
    const name = stringAt(bytes, membersIn(bytes, { start, end }).get('name'));
    if (name === undefined) continue;
    tools.set(name, []);
    if (!bytes.subarray(start, end).includes(annotation)) continue;
    const { inputSchema }: { inputSchema?: unknown } = JSON.parse(
      bytes.toString('utf8', start, end),
    );
    const parameters = mirroredParameters(inputSchema);
    if (!parameters || !fits(parameters)) invalid.push(name);
    else tools.set(name, parameters);
  }
  return { tools, invalid, cursor: stringAt(bytes, members?.get('nextCursor')) };
}

function fits(parameters: readonly MirroredParameter[]): boolean {
  const isLong = parameters.some(({ header }) => header.length > maxHeaderLength);
  return !isLong && parameters.length <= maxParameters;
}

function hasCursor(request: UpstreamRequest): boolean {
  const list = messageIn(request);
  return list !== undefined && spanAt(list, 'params', 'cursor') !== undefined;
}

function withArguments(
  request: UpstreamRequest,
  call: Message | undefined,
  parameters: readonly MirroredParameter[] | undefined,
): UpstreamRequest {
  if (!call || !parameters) return request;
  const mirrored = parameterHeaders(parameters, argumentsOf(call));
  return { ...request, headers: { ...request.headers, ...mirrored } };
}

/** Finds arguments of a call by their paths. Each object on a path is read once, however many parameters are in it. */
function argumentsOf({ body, envelope }: Message) {
  const known = new Map<Span, ReadonlyMap<string, Span>>();
  const membersOf = (span: Span) => {
    const members = known.get(span) ?? membersIn(body, span);
    known.set(span, members);
    return members;
  };
  return (path: readonly string[]): string | undefined => {
    let span = envelope.params;
    for (const name of ['arguments', ...path]) span = span && membersOf(span).get(name);
    return span && body.toString('utf8', span.start, span.end);
  };
}

function isMismatch(bytes: Buffer): boolean {
  const refusal = readMessage(bytes);
  return refusal !== undefined && Number(textAt(refusal, 'error', 'code')) === headerMismatch;
}
