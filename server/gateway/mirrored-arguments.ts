import { type MirroredParameter, mirroredParameters, parameterHeaders } from 'latchkey-mcp/headers';
import type { Span } from 'latchkey-mcp/json';
import { elementsIn, membersIn, stringAt } from 'latchkey-mcp/json-edit';
import { type Envelope, scanMessage } from 'latchkey-mcp/message';
import type { ServerRecord } from '#db/servers';
import { upstreamLocation } from '#upstreams/drivers';
import { responseIn, wholeBody } from './answers.ts';
import { messageWithoutTools } from './tool-list.ts';
import { type Upstream, type UpstreamAnswer, type UpstreamRequest } from './upstream.ts';

const maxServers = 1000;
const maxPages = 100;
const headerMismatch = -32020;
const annotation = Buffer.from('x-mcp-header');

/** Sends a request to an upstream. */
type Send = Upstream['send'];

/** The mirrored parameters of one upstream, by tool name. */
type Tools = Map<string, readonly MirroredParameter[]>;

/**
 * Adds the headers in which modern upstreams want tool arguments repeated, for legacy callers, who do not send them.
 * The upstream's tool lists declare them. Lists are read as they pass, and requested when a call is refused because
 * of a missing header. Tools with invalid annotations are removed from lists.
 *
 * MCP 2026-07-28 transports, "Custom Headers from Tool Parameters"
 */
export class MirroredArguments {
  readonly #tools = new Map<string, Tools>();

  /** Sends modern tool requests with these headers, and any other request as it is. */
  send(request: UpstreamRequest, server: ServerRecord, send: Send): Promise<UpstreamAnswer> {
    const method = request.headers['mcp-method'];
    if (method === 'tools/call') return this.#call(request, send, server);
    if (method === 'tools/list') return this.#list(request, send, server);
    return send(request);
  }

  async #call(request: UpstreamRequest, send: Send, server: ServerRecord): Promise<UpstreamAnswer> {
    const tools = this.#toolsOf(server);
    const carried = withArguments(request, tools);
    const answer = await send(carried);
    if (answer.status !== 400 || answer.mediaType !== 'application/json') return answer;
    const body = await wholeBody(answer.body);
    if (!isMismatch(body)) return { ...answer, body };
    await relist(request, send, tools);
    const again = withArguments(request, tools);
    const isSame = JSON.stringify(again.headers) === JSON.stringify(carried.headers);
    // The upstream refused the call, so it did not execute it.
    return isSame ? { ...answer, body } : send(again);
  }

  async #list(request: UpstreamRequest, send: Send, server: ServerRecord): Promise<UpstreamAnswer> {
    const answer = await send(request);
    if (answer.status !== 200) return answer;
    const message = await wholeMessage(answer);
    const { invalid } = learn(message, this.#toolsOf(server));
    const body = invalid.length > 0 ? messageWithoutTools(message, invalid) : message;
    return { ...answer, mediaType: 'application/json', body };
  }

  #toolsOf(server: ServerRecord): Tools {
    const place = `${server.id} ${upstreamLocation(server.upstream)}`;
    const known = this.#tools.get(place);
    if (known) return known;
    if (this.#tools.size >= maxServers) this.#tools.clear();
    const tools: Tools = new Map();
    this.#tools.set(place, tools);
    return tools;
  }
}

/** Requests the list of tools on behalf of the caller. */
async function relist(
  { body, headers: called, signal }: UpstreamRequest,
  send: Send,
  tools: Tools,
): Promise<void> {
  const call = body && read(Buffer.from(body));
  const _meta: unknown = call?.meta && JSON.parse(textAt(call.message, call.meta));
  const named = Object.entries(called).filter(([name]) => name !== 'mcp-name');
  const headers = { ...Object.fromEntries(named), 'mcp-method': 'tools/list' };
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page += 1) {
    const params = { _meta, ...(cursor !== undefined && { cursor }) };
    const asked = { jsonrpc: '2.0', id: `tools-${page}`, method: 'tools/list', params };
    const text = Buffer.from(JSON.stringify(asked));
    const answer = await send({ method: 'POST', headers, body: text, signal });
    const message = await wholeMessage(answer);
    ({ cursor } = learn(message, tools));
    if (cursor === undefined) return;
  }
}

/** Learns from a list of tools. Returns the names of tools with invalid annotations. */
function learn(bytes: Buffer, tools: Tools): { invalid: string[]; cursor: string | undefined } {
  const invalid: string[] = [];
  const list = read(bytes);
  const result = list && membersIn(bytes, list.root).get('result');
  const members = result && membersIn(bytes, result);
  const listed = members?.get('tools');
  for (const { start, end } of (listed && elementsIn(bytes, listed)) ?? []) {
    const name = stringAt(bytes, membersIn(bytes, { start, end }).get('name'));
    if (name === undefined) continue;
    tools.delete(name);
    if (!bytes.subarray(start, end).includes(annotation)) continue;
    const { inputSchema }: { inputSchema?: unknown } = JSON.parse(
      bytes.toString('utf8', start, end),
    );
    const parameters = mirroredParameters(inputSchema);
    if (!parameters) invalid.push(name);
    else if (parameters.length > 0) tools.set(name, parameters);
  }
  return { invalid, cursor: stringAt(bytes, members?.get('nextCursor')) };
}

function withArguments(request: UpstreamRequest, tools: Tools): UpstreamRequest {
  if (tools.size === 0 || !request.body) return request;
  const call = read(Buffer.from(request.body));
  const parameters = call && tools.get(call.name ?? '');
  if (!parameters) return request;
  const mirrored = parameterHeaders(parameters, (path) => argumentAt(call, path));
  return { ...request, headers: { ...request.headers, ...mirrored } };
}

function argumentAt({ message, params }: ReadMessage, path: readonly string[]): string | undefined {
  let span = params;
  for (const name of ['arguments', ...path]) span = span && membersIn(message, span).get(name);
  return span && textAt(message, span);
}

function isMismatch(bytes: Buffer): boolean {
  const refusal = read(bytes);
  const error = refusal && membersIn(bytes, refusal.root).get('error');
  const code = error && membersIn(bytes, error).get('code');
  return code !== undefined && Number(textAt(bytes, code)) === headerMismatch;
}

type ReadMessage = Envelope & { readonly message: Buffer };

function read(message: Buffer): ReadMessage | undefined {
  const scan = scanMessage(message);
  return scan.outcome === 'message' ? { ...scan.envelope, message } : undefined;
}

function textAt(bytes: Buffer, { start, end }: Span): string {
  return bytes.toString('utf8', start, end);
}

async function wholeMessage({ mediaType, body }: UpstreamAnswer): Promise<Buffer> {
  const bytes = await (mediaType === 'text/event-stream' ? responseIn(body) : wholeBody(body));
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
