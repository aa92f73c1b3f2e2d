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
  /** Opens HTTP+SSE. Loaded on demand. */
  sse: () => Promise<HttpSse>;
  /** Translates between a legacy assistant and a modern server at `http`. Loaded on demand. */
  translated: (http: Upstream) => Promise<TranslatedUpstream>;
  memory: RememberedServer;
  log: Log;
};

type Handshake = { initialize: Message; deliver: Deliver; signal: AbortSignal };

/** Statuses with which servers refuse methods and requests that they do not know. */
const unknown = new Set([400, 404, 405, 406, 415]);

/**
 * Detects the era and transport of a server during the handshake. Most servers accept `initialize` over Streamable
 * HTTP, so that is tried first and needs no extra request. If the server refuses that, `server/discover` is tried, and
 * then the event stream of 2024-11-05. The result is remembered, so that the next start needs a single request again.
 * Messages of a modern assistant, which makes no handshake, pass unchanged.
 *
 * MCP 2026-07-28 versioning, MCP 2025-11-25 transports, backwards compatibility
 */
export function detectServer(transport: TransportChoice, ports: DetectServerPorts): Step {
  return { name: 'detection', on: (http) => new DetectedServer(transport, ports, http) };
}

class DetectedServer implements Upstream {
  readonly #transport: TransportChoice;
  readonly #ports: DetectServerPorts;
  readonly #http: Upstream;
  #chosen: Upstream;
  #sse: HttpSse | undefined;

  constructor(transport: TransportChoice, ports: DetectServerPorts, http: Upstream) {
    this.#transport = transport;
    this.#ports = ports;
    this.#http = http;
    this.#chosen = http;
  }

  send(message: Message, deliver: Deliver, signal: AbortSignal): Promise<void> {
    return message.method === 'initialize' && modernVersion(message) === undefined
      ? this.#detect({ initialize: message, deliver, signal })
      : this.#chosen.send(message, deliver, signal);
  }

  async listen(deliver: Deliver, signal: AbortSignal): Promise<void> {
    return this.#chosen.listen(deliver, signal);
  }

  async close(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#http.close(signal), this.#sse?.close(signal)]);
  }

  async #detect(handshake: Handshake): Promise<void> {
    const { memory } = this.#ports;
    const transport = this.#transport;
    const known = memory.recall();
    if (transport === 'sse-only') return this.#useSse(await this.#openSse(), handshake);
    if (transport === 'sse-first' || (known === 'sse' && transport === 'http-first'))
      if (await this.#asSse(handshake)) return;
    if (known === 'modern' && (await this.#asModern(handshake))) return;
    const refusal = await this.#asLegacy(handshake);
    if (!refusal) {
      if (known) await memory.remember(undefined);
      return;
    }
    if (known !== 'modern' && (await this.#asModern(handshake))) return;
    if (transport === 'http-first' && known !== 'sse') if (await this.#asSse(handshake)) return;
    await refusal.deliver();
  }

  /** Returns the server's refusal; `undefined` if it answered in a way that a legacy assistant understands. */
  async #asLegacy({ initialize, deliver, signal }: Handshake) {
    let refusal: { deliver: () => Promise<void> } | undefined;
    this.#chosen = this.#http;
    const take: Deliver = async (received) => {
      if (received.kind !== 'response' || isLegacy(received)) return deliver(received);
      refusal = { deliver: async () => deliver(received) };
    };
    try {
      await this.#http.send(initialize, take, signal);
    } catch (error) {
      const refused = error instanceof UpstreamError && unknown.has(error.status ?? 0);
      if (!refused) throw error;
      refusal = { deliver: () => Promise.reject(error) };
    }
    return refusal;
  }

  async #asModern({ initialize, deliver, signal }: Handshake): Promise<boolean> {
    const translated = await this.#ports.translated(this.#http);
    const answer = await translated.handshake(initialize, signal);
    if (!answer) return false;
    this.#ports.log.info('the server speaks the modern era only, translating', {});
    this.#chosen = translated;
    await this.#ports.memory.remember('modern');
    await deliver(answer);
    return true;
  }

  async #asSse(handshake: Handshake): Promise<boolean> {
    const { memory, log } = this.#ports;
    const sse = await this.#openSse();
    try {
      await sse.open();
    } catch (error) {
      const other =
        error instanceof UpstreamError &&
        !['unauthorized', 'suspended', 'redirected'].includes(error.code);
      if (!other) throw error;
      log.debug('no event stream', { reason: error.message });
      return false;
    }
    log.info('the server speaks HTTP+SSE', {});
    if (this.#transport === 'http-first') await memory.remember('sse');
    await this.#useSse(sse, handshake);
    return true;
  }

  async #useSse(sse: HttpSse, { initialize, deliver, signal }: Handshake): Promise<void> {
    this.#chosen = sse;
    await sse.send(initialize, deliver, signal);
  }

  async #openSse(): Promise<HttpSse> {
    this.#sse ??= await this.#ports.sse();
    return this.#sse;
  }
}

/** Some modern servers answer `initialize`, but with a version that no longer has this method. */
function isLegacy(answer: Message): boolean {
  const version = stringAt(answer, 'result', 'protocolVersion');
  return version !== undefined && version < '2026-07-28';
}

/** A kind of server other than the one that is tried first, a legacy server over Streamable HTTP. */
export type ServerKind = 'modern' | 'sse';

interface RememberedServer {
  recall(): ServerKind | undefined;

  /** `undefined` forgets the kind. Never fails: if the kind is not stored, the next start needs one more request. */
  remember(kind: ServerKind | undefined): Promise<void>;
}

/** A small file for each server in `directory`, which contains only the kind. */
export function rememberedServer(directory: string, url: string): RememberedServer {
  // URLs with the same file name share the remembered kind. A wrong kind costs no more than an extra request.
  const name = encodeURIComponent(url).replaceAll('%', '_').slice(-180);
  const path = join(directory, name);
  return {
    // Called at every start. Usually there is no such file.
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
        // Other code that needs the state directory reports the failure.
      }
    },
  };
}

/** The remembered kind of the server at `url`, in this user's state directory. */
export function openRememberedServer(
  url: string,
  options: Options,
  host: UserHost,
): RememberedServer {
  return rememberedServer(join(options.stateDir ?? defaultStateDirectory(host), 'servers'), url);
}
