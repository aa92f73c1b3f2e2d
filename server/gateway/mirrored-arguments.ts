import type { ServerRecord } from '#organizations/server-record';
import { encodeHeader } from './era.ts';
import { responseIn, wholeBody } from './event-stream.ts';
import { messageWithoutTools } from './hidden-tools.ts';
import { elementsIn, membersIn, stringAt } from './json-parts.ts';
import { scanMessage, type Envelope } from './json-scan.ts';
import { mirroredParameters, type MirroredParameter } from './mirrored-parameters.ts';
import type { Span } from './strict-json.ts';
import type { Upstream, UpstreamAnswer, UpstreamRequest } from './upstream.ts';
import { upstreamPlace } from './upstream-place.ts';

const maxServers = 1000;
const maxPages = 100;
const headerMismatch = -32020;
const annotation = Buffer.from('x-mcp-header');

/** What calls of one upstream repeat, by the names of its tools. */
type Tools = Map<string, readonly MirroredParameter[]>;

/**
 * Sees to the headers that modern upstreams want arguments of tools repeated in, where it is the gateway that speaks the
 * modern era for a caller who knows nothing of it. What they want they say in their lists of tools, which are read as they
 * pass, and asked for when a call is refused for want of them. Tools whose annotations are invalid are left out of a list.
 *
 * MCP 2026-07-28 transports, "Custom Headers from Tool Parameters"
 */
export class MirroredArguments {
  readonly #tools = new Map<string, Tools>();

  /** The same upstream, whose requests of the modern era carry these headers; others pass as they are. */
  upstream(upstream: Upstream, server: ServerRecord): Upstream {
    return {
      send: (request) => {
        const method = request.headers['mcp-method'];
        if (method === 'tools/call') return this.#call(request, upstream, server);
        if (method === 'tools/list') return this.#list(request, upstream, server);
        return upstream.send(request);
      },
    };
  }

  async #call(
    request: UpstreamRequest,
    upstream: Upstream,
    server: ServerRecord,
  ): Promise<UpstreamAnswer> {
    const tools = this.#toolsOf(server);
    const carried = withArguments(request, tools);
    const answer = await upstream.send(carried);
    if (answer.status !== 400 || answer.mediaType !== 'application/json') return answer;
    const body = await wholeBody(answer.body);
    if (!isMismatch(body)) return { ...answer, body };
    await relist(request, upstream, tools);
    const again = withArguments(request, tools);
    const isSame = JSON.stringify(again.headers) === JSON.stringify(carried.headers);
    // It refused the call, so it did not run it.
    return isSame ? { ...answer, body } : upstream.send(again);
  }

  async #list(
    request: UpstreamRequest,
    upstream: Upstream,
    server: ServerRecord,
  ): Promise<UpstreamAnswer> {
    const answer = await upstream.send(request);
    if (answer.status !== 200) return answer;
    const message = await wholeMessage(answer);
    const { invalid } = learn(message, this.#toolsOf(server));
    const body = invalid.length > 0 ? messageWithoutTools(message, invalid) : message;
    return { ...answer, mediaType: 'application/json', body };
  }

  #toolsOf(server: ServerRecord): Tools {
    const place = `${server.id} ${upstreamPlace(server)}`;
    const known = this.#tools.get(place);
    if (known) return known;
    if (this.#tools.size >= maxServers) this.#tools.clear();
    const tools: Tools = new Map();
    this.#tools.set(place, tools);
    return tools;
  }
}

/** Asks for the list of tools, as whoever made the call. */
async function relist(
  { body, headers: called, signal }: UpstreamRequest,
  upstream: Upstream,
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
    const answer = await upstream.send({ method: 'POST', headers, body: text, signal });
    const message = await wholeMessage(answer);
    ({ cursor } = learn(message, tools));
    if (cursor === undefined) return;
  }
}

/** Takes over what a list of tools says. Names the tools in it whose annotations are invalid. */
function learn(bytes: Buffer, tools: Tools): { invalid: string[]; cursor: string | undefined } {
  const invalid: string[] = [];
  const list = read(bytes);
  const result = list && membersIn(bytes, list.root).get('result');
  const members = result && membersIn(bytes, result);
  const listed = members?.get('tools');
  for (const { start, end } of listed ? elementsIn(bytes, listed) : []) {
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
  const headers: Record<string, string> = { ...request.headers };
  for (const { path, header } of parameters) {
    const value = plainValue(call, ['arguments', ...path]);
    if (value !== undefined) headers[header] = encodeHeader(value);
  }
  return { ...request, headers };
}

/** What a header says of an argument; one that is not there, or `null`, has none. Numbers are compared as such. */
function plainValue({ message, params }: ReadMessage, path: readonly string[]): string | undefined {
  let span = params;
  for (const name of path) span = span && membersIn(message, span).get(name);
  const value: unknown = span && JSON.parse(textAt(message, span));
  if (typeof value === 'string') return value;
  return typeof value === 'boolean' || Number.isSafeInteger(value) ? String(value) : undefined;
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
