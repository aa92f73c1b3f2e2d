import type { IncomingMessage } from 'node:http';
import { readMessage, stringAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';

/** The state of a legacy session. */
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
  /** Sends a message of a handshake of ours. Resolves after its answer has been processed. */
  send: (message: Message, signal: AbortSignal) => Promise<void>;
  /** The settings to repeat in a new session after its handshake. */
  settings: () => readonly Message[];
  log: Log;
};

/** The session of legacy requests. */
export interface HeldSession {
  current(): LegacySession;

  set(session: LegacySession): void;

  /** Aborts when another session replaces the current one. */
  readonly replaced: AbortSignal;

  /** The handshake of a new session, while it is in progress. */
  revival(): Promise<void> | undefined;

  /** Repeats the handshake, once for all requests that found the session with that id forgotten. */
  revive(forgotten: string): Promise<void>;

  /** Starts no more sessions, and returns the current one. */
  close(): LegacySession;
}

/** Ends the handshake. */
export const initialized = readMessage(
  Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}'),
);

const reviveTimeoutMs = 30_000;

export function heldSession({ send, settings, log }: HeldSessionPorts): HeldSession {
  const life = new AbortController();
  let session: LegacySession = {};
  let revival: Promise<void> | undefined;
  let latestId: string | undefined;
  let reign = new AbortController();

  async function repeatHandshake(before: LegacySession, initialize: Message): Promise<void> {
    // Other requests wait for it too, so it does not end with the request that started it.
    const signal = AbortSignal.any([life.signal, AbortSignal.timeout(reviveTimeoutMs)]);
    log.info('session forgotten by the server, starting another');
    try {
      await send(initialize, signal);
      await send(initialized, signal);
      for (const setting of settings()) await repeat(setting, signal);
    } catch (error) {
      // The next request gets a 404 again and repeats the attempt.
      session = before;
      throw error;
    } finally {
      revival = undefined;
    }
  }

  /** Errors are only logged: a session without a setting is better than none. */
  async function repeat(setting: Message, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await send(setting, signal).catch((error: unknown) =>
      log.warn('setting not repeated in the new session', {
        what: setting.method,
        reason: String(error),
      }),
    );
  }

  return {
    current: () => session,
    set(next) {
      session = next;
      if (next.id === undefined || next.id === latestId) return;
      latestId = next.id;
      reign.abort();
      reign = new AbortController();
    },
    get replaced() {
      return reign.signal;
    },
    revival: () => revival,
    async revive(forgotten) {
      if (revival) return revival;
      const { id, initialize } = session;
      if (id !== forgotten || !initialize) return undefined;
      revival = repeatHandshake(session, initialize);
      return revival;
    },
    close() {
      life.abort();
      const before = session;
      session = {};
      return before;
    },
  };
}

/** The settings that an assistant made in its session, to repeat them in a new one. */
interface SessionSettings {
  /** Records a request that the server has accepted. */
  learn(request: Message): void;

  /** The requests to repeat. */
  all(): readonly Message[];

  /** Forgets everything, because the assistant starts a new session. */
  forget(): void;
}

const most = 1000;

/**
 * The last log level, and the active subscriptions to resources, at most a thousand.
 *
 * MCP 2025-11-25 logging; resources, "Subscriptions"
 */
export function sessionSettings(): SessionSettings {
  const settings = new Map<string, Message>();
  return {
    learn(request) {
      const { method } = request;
      const subscription = `uri ${stringAt(request, 'params', 'uri') ?? ''}`;
      if (method === 'logging/setLevel') settings.set('level', request);
      if (method === 'resources/unsubscribe') settings.delete(subscription);
      if (method === 'resources/subscribe' && settings.size < most)
        settings.set(subscription, request);
    },
    all: () => [...settings.values()],
    forget: () => settings.clear(),
  };
}
