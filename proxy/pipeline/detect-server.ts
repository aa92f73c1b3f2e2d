import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { modernVersion, stringAt, type Message } from 'latchkey-mcp/raw-message';
import { defaultStateDirectory } from '#config/user-files';
import type { Options } from '#config/options';
import type { UserHost } from '#host';
import type { Log } from '#log/log';
import type { HttpSse } from '#transport/http-sse';
import { UpstreamError, type Deliver, type Upstream } from '#transport/upstream';
import type { Step } from './step.ts';
import type { TranslatedUpstream } from './translated-server.ts';

/** Which transport is tried first, and whether the other one is tried at all. */
export type TransportChoice = 'http-first' | 'sse-first' | 'http-only' | 'sse-only';

type DetectServerPorts = {
  /** HTTP+SSE; loaded when it is needed. */
  sse: () => Promise<HttpSse>;
  /** Speaks the modern era to `http` for an assistant of the older one; loaded when it is needed. */
  translated: (http: Upstream) => Promise<TranslatedUpstream>;
  memory: RememberedServer;
  log: Log;
};

/** Statuses with which a server refuses what it does not know. */
const unknown = new Set([400, 404, 405, 406, 415]);

/**
 * A server whose era and transport show when the assistant shakes hands. Most servers know `initialize`
 * over Streamable HTTP, so that is tried first and costs no request more. One that refuses it is asked
 * what it is, then for the stream of 2024-11-05; what it turned out to be is remembered, so that the
 * next start needs one request again. Messages of a modern assistant, which makes no handshake, pass unchanged.
 *
 * MCP 2026-07-28 versioning, MCP 2025-11-25 transports, backwards compatibility
 */
export function detectServer(transport: TransportChoice, ports: DetectServerPorts): Step {
  return { name: 'detection', on: (http) => detecting(transport, ports, http) };
}

function detecting(transport: TransportChoice, ports: DetectServerPorts, http: Upstream): Upstream {
  const { memory, log } = ports;
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
    const translated = await ports.translated(http);
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

/** How a server wants to be spoken to, where that is not the way that is tried first. */
export type ServerKind = 'modern' | 'sse';

/** What is remembered of one server from run to run. */
interface RememberedServer {
  recall(): ServerKind | undefined;

  /** `undefined` forgets. What cannot be kept costs the next start a request, so it never fails. */
  remember(kind: ServerKind | undefined): Promise<void>;
}

/** One small file for each server in `directory`; it holds nothing but the kind. */
export function rememberedServer(directory: string, url: string): RememberedServer {
  // Two URLs that share a name mislead each other, which costs a request and no more.
  const name = encodeURIComponent(url).replaceAll('%', '_').slice(-180);
  const path = join(directory, name);
  return {
    // Asked at every start, and mostly there is no such file.
    recall() {
      try {
        const kind = readFileSync(path, 'utf8').trim();
        return kind === 'modern' || kind === 'sse' ? kind : undefined;
      } catch {
        return undefined;
      }
    },
    async remember(kind) {
      const { mkdir, rm, writeFile } = await import('node:fs/promises');
      try {
        if (kind === undefined) return await rm(path, { force: true });
        await mkdir(directory, { recursive: true, mode: 0o700 });
        await writeFile(path, kind, { mode: 0o600 });
      } catch {
        // A state directory that cannot be written is reported by what needs it.
      }
    },
  };
}

/** What this user's host remembers of the server at `url`. */
export function openRememberedServer(
  url: string,
  options: Options,
  host: UserHost,
): RememberedServer {
  return rememberedServer(join(options.stateDir ?? defaultStateDirectory(host), 'servers'), url);
}
