import type { RememberedServer } from './remembered-server.ts';
import type { TranslatedUpstream } from './translated-upstream.ts';
import { stringAt, type Message } from '#jsonrpc/message';
import { modernVersion } from '#jsonrpc/modern-version';
import type { Log } from '#log/log';
import type { HttpSse } from '#transport/http-sse';
import { UpstreamError, type Deliver, type Upstream } from '#transport/upstream';

/** Which transport is tried first, and whether the other one is tried at all. */
export type TransportChoice = 'http-first' | 'sse-first' | 'http-only' | 'sse-only';

export type MetServerPorts = {
  /** Streamable HTTP. */
  http: Upstream;
  /** HTTP+SSE; loaded when it is needed. */
  sse: () => Promise<HttpSse>;
  /** Speaks the modern era to `http` for an assistant of the older one; loaded when it is needed. */
  translated: () => Promise<TranslatedUpstream>;
  memory: RememberedServer;
  log: Log;
};

/** Statuses with which a server refuses what it does not know. */
const unknown = new Set([400, 404, 405, 406, 415]);

/**
 * A server whose era and transport show when the assistant shakes hands. Most servers know `initialize`
 * over Streamable HTTP, so that is tried first and costs no request more. One that refuses it is asked
 * what it is, then for the stream of 2024-11-05; what it turned out to be is remembered, so that the
 * next start needs one request again. An assistant of the modern era shakes no hands and is let through.
 *
 * MCP 2026-07-28 versioning, MCP 2025-11-25 transports, backwards compatibility
 */
export function metServer(transport: TransportChoice, ports: MetServerPorts): Upstream {
  const { http, memory, log } = ports;
  let chosen = http;
  let used: HttpSse | undefined;

  async function meet(initialize: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const known = memory.recall();
    if (transport === 'sse-only') return useSse(await theSse(), initialize, deliver, signal);
    if (transport === 'sse-first' || (known === 'sse' && transport === 'http-first'))
      if (await asSse(initialize, deliver, signal)) return;
    if (known === 'modern' && (await asModern(initialize, deliver, signal))) return;
    const refusal = await asLegacy(initialize, deliver, signal);
    if (!refusal) {
      if (known) await memory.remember(undefined);
      return;
    }
    if (known !== 'modern' && (await asModern(initialize, deliver, signal))) return;
    if (transport === 'http-first' && known !== 'sse')
      if (await asSse(initialize, deliver, signal)) return;
    await refusal.tell();
  }

  /** What came instead of an answer that an older assistant can take. */
  async function asLegacy(initialize: Message, deliver: Deliver, signal: AbortSignal) {
    let refusal: { tell: () => Promise<void> } | undefined;
    chosen = http;
    const take: Deliver = async (said) => {
      if (said.kind !== 'response' || isLegacy(said)) return deliver(said);
      refusal = { tell: async () => deliver(said) };
    };
    try {
      await http.send(initialize, take, signal);
    } catch (error) {
      const refused = error instanceof UpstreamError && unknown.has(error.status ?? 0);
      if (!refused) throw error;
      refusal = { tell: () => Promise.reject(error) };
    }
    return refusal;
  }

  async function asModern(
    initialize: Message,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<boolean> {
    const translated = await ports.translated();
    const answer = await translated.meet(initialize, signal);
    if (!answer) return false;
    log.info('the server speaks the modern era only, translating', {});
    chosen = translated;
    await memory.remember('modern');
    await deliver(answer);
    return true;
  }

  async function asSse(
    initialize: Message,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<boolean> {
    const sse = await theSse();
    try {
      await sse.open();
    } catch (error) {
      const other =
        error instanceof UpstreamError && !['unauthorized', 'redirected'].includes(error.code);
      if (!other) throw error;
      log.debug('no event stream', { reason: error.message });
      return false;
    }
    log.info('the server speaks HTTP+SSE', {});
    if (transport === 'http-first') await memory.remember('sse');
    await useSse(sse, initialize, deliver, signal);
    return true;
  }

  async function useSse(
    sse: HttpSse,
    initialize: Message,
    deliver: Deliver,
    signal: AbortSignal,
  ): Promise<void> {
    chosen = sse;
    await sse.send(initialize, deliver, signal);
  }

  async function theSse(): Promise<HttpSse> {
    used ??= await ports.sse();
    return used;
  }

  return {
    send: (message, deliver, signal) =>
      message.method === 'initialize' && modernVersion(message) === undefined
        ? meet(message, deliver, signal)
        : chosen.send(message, deliver, signal),
    listen: async (deliver, signal) => chosen.listen(deliver, signal),
    async close(signal) {
      await Promise.all([http.close(signal), used?.close(signal)]);
    },
  };
}

/** Some modern servers answer `initialize` after all, with a revision that has none. */
function isLegacy(answer: Message): boolean {
  const version = stringAt(answer, 'result', 'protocolVersion');
  return version !== undefined && version < '2026-07-28';
}
