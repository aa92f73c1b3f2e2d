// Finds out what a caller would: whether an MCP server answers, in which protocol, and which tools it has.
import { abortSignal } from '#model/ending';
import { messageOf } from 'latchkey-mcp/message';
import { modernVersion } from 'latchkey-mcp/translation';
import { z } from 'zod';
import { discard, failure, responseBytes } from '#gateway/answers';
import { GatewayRefusal, type RefusalCode } from '#gateway/gateway-refusal';
import { forwardPlain, type LinkAsked, type PlainLinks } from '#gateway/plain-calls';
import { listIn } from '#gateway/tool-list';
import { type Upstream, type UpstreamAnswer, UpstreamError } from '#gateway/upstream';
import { OutboundError } from '#outbound/checked-addresses';
import type { Definition } from '#model/definitions';
import { toolDefinition } from '#tools/definition';
import { exactJson } from '#tools/exact-json';
import { isTlsError } from './http.ts';

const toolSchema = z.object({
  name: z.string(),
  title: z.string().optional().catch(undefined),
  description: z.string().catch(''),
  inputSchema: z.record(z.string(), z.unknown()).catch({}),
  annotations: z.object({ readOnlyHint: z.boolean().catch(false) }).catch({ readOnlyHint: false }),
});

/** A tool as people see it. MCP 2025-11-25 tools, "Tool" */
export interface ToolDescription {
  readonly name: string;
  readonly title?: string | undefined;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** Whether the server says that the tool changes nothing. */
  readonly isReadOnly: boolean;
}

export interface OfferedTool extends Definition, ToolDescription {}

/** Reads a tool as people see it; `undefined` without a name. Other members that are missing or of another type are empty. */
export function describedTool(tool: unknown): ToolDescription | undefined {
  const { data } = toolSchema.safeParse(tool);
  if (!data) return undefined;
  const { annotations, ...described } = data;
  return { ...described, isReadOnly: annotations.readOnlyHint };
}

/** The result of an inspection. A `reason` is a sentence for administrators, because it may name internal addresses. */
export type Inspection =
  | {
      readonly outcome: 'connected';
      /** The protocol revision: `2025-11-25`; `undefined` if a call, not an inspection, proved that it answers. */
      readonly protocolVersion: string | undefined;
      /** Present if the inspection requested them. */
      readonly tools: readonly OfferedTool[] | undefined;
    }
  /** It answered 401, or refused a token or key. `isOAuth`: it refused a token, or the challenge names an authorization server or Bearer. */
  | { readonly outcome: 'sign-in-required'; readonly isOAuth: boolean; readonly reason: string }
  /** Only people with an account or key of their own there get an answer. */
  | { readonly outcome: 'personal'; readonly reason: string }
  /** In this order: no connection, an answer that is not MCP, an address that must not be called. */
  | { readonly outcome: 'offline' | 'error' | 'forbidden'; readonly reason: string };

export interface Inspected extends LinkAsked {
  /** The name of the upstream in messages: `mcp.example.com:8443`. */
  readonly name: string;
  readonly timeoutMs: number;
  readonly wantsTools: boolean;
}

const mostPages = 100;
/** How many tools an inspection lists. */
export const mostTools = 10_000;
const mostBytes = 4 * 1024 * 1024;

/**
 * Makes the handshake if `links` has none for this key, otherwise pings the upstream, and lists the tools if requested. Never
 * rejects. The next inspection uses the same handshake, unless this one fails.
 */
export async function inspect(inspected: Inspected, links: PlainLinks): Promise<Inspection> {
  const first = await inspectOnce(inspected, links);
  // A restarted server refuses the session of an earlier handshake.
  const { wasKept, inspection } = first;
  const isFinal = !wasKept || inspection.outcome === 'connected';
  return isFinal ? inspection : (await inspectOnce(inspected, links)).inspection;
}

/** The result of trying a key. */
export type KeyTrial =
  /** The tool that was chosen for trying keys answered. */
  | { readonly outcome: 'proved' }
  /** Its tools were listed, which many servers allow without a key. */
  | { readonly outcome: 'listed' }
  /** It answered 401 or 403, or the tool failed. */
  | { readonly outcome: 'refused' }
  /** The key was neither accepted nor refused; `reason` as for an inspection. */
  | { readonly outcome: 'failed'; readonly reason: string };

/** Tries the credentials of an upstream: calls this tool without arguments, or lists the tools. Never rejects. */
export async function tryCredentials(
  {
    timeoutMs,
    name,
    tool,
    ...asked
  }: Omit<Inspected, 'wantsTools'> & { readonly tool: string | undefined },
  links: PlainLinks,
): Promise<KeyTrial> {
  const late = AbortSignal.timeout(timeoutMs);
  const watched = new WatchedUpstream(asked.upstream, late);
  const call = caller({ ...asked, upstream: watched }, late, links);
  try {
    if (tool === undefined) {
      await listTools(call);
      return { outcome: 'listed' };
    }
    const answer: unknown = JSON.parse(
      (await call('tools/call', { name: tool, arguments: {} })).toString('utf8'),
    );
    const { result } = toolResultSchema.parse(answer);
    if (result === undefined) {
      return { outcome: 'failed', reason: `${name} answered the call of ${tool} with an error.` };
    }
    return { outcome: result.isError === true ? 'refused' : 'proved' };
  } catch (error) {
    const { status } = watched.last ?? {};
    if (status === 401 || status === 403) return { outcome: 'refused' };
    const problem = problemOf(error, { name, last: watched.last, isLate: late.aborted, timeoutMs });
    return { outcome: 'failed', reason: 'reason' in problem ? problem.reason : name };
  } finally {
    watched.release();
  }
}

const toolResultSchema = z.object({
  result: z.looseObject({ isError: z.boolean().optional() }).optional(),
});

async function inspectOnce(
  { key, place, upstream, name, timeoutMs, wantsTools }: Inspected,
  links: PlainLinks,
): Promise<{ readonly wasKept: boolean; readonly inspection: Inspection }> {
  const wasKept = links.keeps(key);
  const late = AbortSignal.timeout(timeoutMs);
  const watched = new WatchedUpstream(upstream, late);
  const asked = { key, place, upstream: watched };
  const call = caller(asked, late, links);
  try {
    const link = await links.link(asked);
    // A link that was kept does not prove that the upstream answers now.
    if (wasKept && !wantsTools) await call(link.era === 'modern' ? 'server/discover' : 'ping');
    const tools = wantsTools ? await listTools(call) : undefined;
    if (wantsTools) await listOthers(call);
    const protocolVersion = link.era === 'legacy' ? link.protocolVersion : modernVersion;
    return { wasKept, inspection: { outcome: 'connected', protocolVersion, tools } };
  } catch (error) {
    links.endOf(key);
    const problem = problemOf(error, { name, last: watched.last, isLate: late.aborted, timeoutMs });
    return { wasKept, inspection: problem };
  } finally {
    watched.release();
  }
}

/** Returns a function that sends a request and reads its answer. */
function caller(asked: LinkAsked, signal: AbortSignal, links: PlainLinks) {
  return async (method: string, params?: object): Promise<Buffer> => {
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, method, ...(params && { params }) });
    const request = { ...asked, ...messageOf(text), signal, trace: {} };
    return answerTo(await forwardPlain(request, links));
  };
}

/** Remembers the last answer, and ends requests that are late until it is released. */
class WatchedUpstream implements Upstream {
  last: UpstreamAnswer | undefined;
  readonly #upstream: Upstream;
  #late: AbortSignal | undefined;

  constructor(upstream: Upstream, late: AbortSignal) {
    this.#upstream = upstream;
    this.#late = late;
  }

  async send(request: Parameters<Upstream['send']>[0]): Promise<UpstreamAnswer> {
    // A late inspection must still end its session.
    const late = request.method === 'DELETE' ? undefined : this.#late;
    const signal = late ? AbortSignal.any([abortSignal(request.signal), late]) : request.signal;
    this.last = undefined;
    this.last = await this.#upstream.send({ ...request, signal });
    return this.last;
  }

  release(): void {
    this.#late = undefined;
  }
}

async function answerTo({ answer }: Awaited<ReturnType<typeof forwardPlain>>): Promise<Buffer> {
  if (answer.status !== 200) {
    await discard(answer.body);
    throw failure(answer);
  }
  return responseBytes(answer, mostBytes);
}

const cursorSchema = z.object({
  result: z.object({ nextCursor: z.string().optional().catch(undefined) }),
});
const errorSchema = z.object({ error: z.object({ code: z.number() }) });
const methodNotFound = -32_601;

async function listTools(
  call: (method: string, params: object) => Promise<Buffer>,
): Promise<OfferedTool[]> {
  const tools: OfferedTool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages && tools.length < mostTools; page += 1) {
    const message = await call('tools/list', cursor === undefined ? {} : { cursor });
    const list = listIn(message, 'tools/list');
    const value: unknown = JSON.parse(message.toString('utf8'));
    if (!list) {
      // A server without tools need not know the method.
      if (errorSchema.safeParse(value).data?.error.code === methodNotFound) return tools;
      throw new GatewayRefusal('upstream_failed', { detail: 'it refused to list its tools' });
    }
    tools.push(
      ...list.entries.flatMap(({ span }) => {
        const text = message.toString('utf8', span.start, span.end);
        const definition = toolDefinition(exactJson(text));
        const described = describedTool(JSON.parse(text));
        return definition && described ? [{ ...definition, ...described }] : [];
      }),
    );
    cursor = cursorSchema.safeParse(value).data?.result.nextCursor;
    if (cursor === undefined) break;
  }
  return tools.slice(0, mostTools);
}

const othersTimeoutMs = 3_000;

/**
 * Lists the prompts and templates, which a model reads, too. The upstream of `toolInspection` compares the answers with the accepted
 * definitions, so they are not used here. A server need not know these methods.
 */
async function listOthers(call: (method: string, params: object) => Promise<Buffer>) {
  const asked = ['prompts/list', 'resources/templates/list'].map((method) => call(method, {}));
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, othersTimeoutMs);
  });
  await Promise.race([Promise.allSettled(asked), late]);
  clearTimeout(timer);
}

interface ProblemContext extends Pick<Inspected, 'name' | 'timeoutMs'> {
  readonly last: UpstreamAnswer | undefined;
  readonly isLate: boolean;
}

/** Why there was no answer, from what the gateway, the driver and the network say. */
function problemOf(error: unknown, context: ProblemContext): Inspection {
  const { name, last, isLate, timeoutMs } = context;
  const chain = [...causesOf(error)];
  const refusal = chain.find((one) => one instanceof GatewayRefusal);
  if (chain.some((one) => one instanceof OutboundError && one.code === 'forbidden')) {
    return { outcome: 'forbidden', reason: `${name} is in a private network.` };
  }
  if (chain.some((one) => one instanceof OutboundError && one.code === 'not_public')) {
    return {
      outcome: 'forbidden',
      reason: `${name} was not found, or is not on the public internet.`,
    };
  }
  const code = refusal?.code;
  if (code === 'key_missing') {
    return { outcome: 'personal', reason: `${name} requires each person to enter a key.` };
  }
  if (code === 'key_refused') {
    const reason = `${name} refuses your key.`;
    return { outcome: 'sign-in-required', isOAuth: false, reason };
  }
  if (code === 'no_person' || code === 'not_connected') {
    return { outcome: 'personal', reason: `${name} requires each person to connect an account.` };
  }
  if (code === 'upstream_token' || code === 'upstream_scope') {
    const reason = `${name} or its authorization server refuses the configured sign-in.`;
    return { outcome: 'sign-in-required', isOAuth: true, reason };
  }
  if (code === 'agent_offline') return { outcome: 'offline', reason: 'The agent is offline.' };
  if (last?.status === 401) {
    const isOAuth = /\bresource_metadata=|^bearer\b/i.test(last.challenge ?? '');
    const reason = `${name} requires authentication (HTTP 401).`;
    return { outcome: 'sign-in-required', isOAuth, reason };
  }
  const reported = chain.find((one) => one instanceof UpstreamError)?.detail;
  if (reported) return { outcome: 'error', reason: asSentence(reported) };
  if (isLate) {
    const reason = `${name} did not answer within ${timeoutMs / 1000} seconds.`;
    return { outcome: 'offline', reason };
  }
  if (code !== undefined && absences.has(code)) {
    return { outcome: 'offline', reason: networkReason(chain, name) };
  }
  if (last && last.status === 404) {
    return { outcome: 'error', reason: `${name} has no MCP server at this URL (HTTP 404).` };
  }
  if (code === 'upstream_busy' || code === 'upstream_rate_limited') {
    return { outcome: 'error', reason: `${name} is overloaded (HTTP ${last?.status ?? 503}).` };
  }
  const detail = refusal?.details.detail;
  if (detail) return { outcome: 'error', reason: `${name}: ${detail}.` };
  return { outcome: 'error', reason: `${name} does not respond as an MCP server.` };
}

/** The codes for a server that cannot be reached. */
const absences: ReadonlySet<RefusalCode> = new Set([
  'upstream_unreachable',
  'upstream_unknown_host',
  'upstream_not_public',
  'upstream_tls_failed',
  'upstream_not_served',
]);

function* causesOf(error: unknown): Generator {
  let one = error;
  for (let depth = 0; depth < 8 && one !== undefined; depth += 1) {
    yield one;
    one = one instanceof Error ? one.cause : undefined;
  }
}

/** Describes a network error in words. */
function networkReason(chain: readonly unknown[], name: string): string {
  const codes = chain.map((one) => (one instanceof Error && 'code' in one ? one.code : undefined));
  const code = codes.map(String).find((one) => /^[A-Z][A-Z0-9_]+$/.test(one)) ?? '';
  if (/^(?:ENOTFOUND|ENODATA|EAI_\w+)$/.test(code)) {
    return `The host name of ${name} was not found.`;
  }
  if (chain.some((one) => one instanceof OutboundError && one.code === 'timeout')) {
    return `The host name of ${name} could not be resolved: no name server answers in time.`;
  }
  if (chain.some((one) => one instanceof OutboundError)) {
    return `The host name of ${name} was not found.`;
  }
  if (code === 'ECONNREFUSED') return `Connection refused at ${name}.`;
  if (/TIMEOUT|ETIMEDOUT/.test(code)) return `No connection to ${name}: it does not respond.`;
  if (isTlsError(code)) {
    return `The TLS certificate of ${name} is not valid (${code}).`;
  }
  return code ? `No connection to ${name} (${code}).` : `No connection to ${name}.`;
}

function asSentence(text: string): string {
  const begun = `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}
