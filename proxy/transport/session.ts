import type { IncomingMessage } from 'node:http';
import { readMessage, stringAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';

type LegacySession = {
  id?: string;
  protocolVersion?: string;
  /** The assistant's handshake, for repetition after the server has forgotten the session. */
  initialize?: Message;
};

/** The headers of every request in the session. MCP 2025-11-25 transports */
export function sessionHeaders({ id, protocolVersion }: LegacySession): Record<string, string> {
  return {
    ...(id !== undefined && { 'mcp-session-id': id }),
    ...(protocolVersion !== undefined && { 'mcp-protocol-version': protocolVersion }),
  };
}

/** The session that results from the answer to `initialize` and its response headers. */
export function agreedSession(
  session: LegacySession,
  answer: Message,
  { headers }: IncomingMessage,
): LegacySession {
  if (!answer.members.has('result')) return session;
  const id = headers['mcp-session-id'];
  const version = stringAt(answer, 'result', 'protocolVersion');
  return {
    ...session,
    ...(typeof id === 'string' && { id }),
    // It becomes a header, so it must look like a version.
    ...(version !== undefined && /^[\w.-]+$/.test(version) && { protocolVersion: version }),
  };
}

type HeldSessionPorts = {
  /** Sends a message of a handshake that we repeat. Resolves after its answer has been processed. */
  send: (message: Message, signal: AbortSignal) => Promise<void>;
  /** The settings to repeat in a new session after its handshake. */
  settings: () => readonly Message[];
  log: Log;
};

/** The message that ends the handshake. */
export const initialized = readMessage(
  Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}'),
);

const reviveTimeoutMs = 30_000;

/** The session of legacy requests. */
export class HeldSession {
  readonly #ports: HeldSessionPorts;
  readonly #life = new AbortController();
  #session: LegacySession = {};
  #revival: Promise<void> | undefined;
  #latestId: string | undefined;
  #reign = new AbortController();

  constructor(ports: HeldSessionPorts) {
    this.#ports = ports;
  }

  current(): LegacySession {
    return this.#session;
  }

  set(next: LegacySession): void {
    this.#session = next;
    if (next.id === undefined || next.id === this.#latestId) return;
    this.#latestId = next.id;
    this.#reign.abort();
    this.#reign = new AbortController();
  }

  /** Aborts when another session replaces the current one. */
  get replaced(): AbortSignal {
    return this.#reign.signal;
  }

  /** The handshake of a new session, while it is in progress. */
  revival(): Promise<void> | undefined {
    return this.#revival;
  }

  /** Repeats the handshake if the server has forgotten the session with this id, once for all requests. */
  async revive(forgotten: string): Promise<void> {
    if (this.#revival) return this.#revival;
    const { id, initialize } = this.#session;
    if (id !== forgotten || !initialize) return undefined;
    this.#revival = this.#repeatHandshake(this.#session, initialize);
    return this.#revival;
  }

  /** Starts no more sessions, and returns the current one. */
  close(): LegacySession {
    this.#life.abort();
    const before = this.#session;
    this.#session = {};
    return before;
  }

  async #repeatHandshake(before: LegacySession, initialize: Message): Promise<void> {
    const { send, settings, log } = this.#ports;
    // Other requests wait for the handshake too, so it does not end with the request that started it.
    const signal = AbortSignal.any([this.#life.signal, AbortSignal.timeout(reviveTimeoutMs)]);
    log.info('session forgotten by the server, starting another');
    try {
      await send(initialize, signal);
      await send(initialized, signal);
      for (const setting of settings()) await this.#repeat(setting, signal);
    } catch (error) {
      // The next request gets a 404 again and repeats the attempt.
      this.#session = before;
      throw error;
    } finally {
      this.#revival = undefined;
    }
  }

  /** Errors are only logged: a session without a setting is better than none. */
  async #repeat(setting: Message, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { send, log } = this.#ports;
    await send(setting, signal).catch((error: unknown) =>
      log.warn('setting not repeated in the new session', {
        what: setting.method,
        reason: String(error),
      }),
    );
  }
}

const maxSettings = 1000;

function subscription(request: Message): string {
  return `uri ${stringAt(request, 'params', 'uri') ?? ''}`;
}

/**
 * The settings that an assistant made in its session, to repeat them in a new one: the last log level, and the active
 * subscriptions to resources, at most a thousand.
 *
 * MCP 2025-11-25 logging; resources, "Subscriptions"
 */
export function sessionSettings() {
  const settings = new Map<string, Message>();
  return {
    /** Records a request that the server has accepted. */
    learn(request: Message): void {
      const { method } = request;
      if (method === 'logging/setLevel') settings.set('level', request);
      if (method === 'resources/unsubscribe') settings.delete(subscription(request));
      if (method === 'resources/subscribe' && settings.size < maxSettings)
        settings.set(subscription(request), request);
    },
    /** The requests to repeat. */
    all: (): readonly Message[] => [...settings.values()],
    /** Forgets everything, because the assistant starts a new session. */
    forget: () => settings.clear(),
  };
}
