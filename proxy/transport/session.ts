import type { IncomingMessage } from 'node:http';
import { readMessage, stringAt, type Message } from 'latchkey-mcp/raw-message';
import type { Log } from '#log/log';

/** What the era before 2026-07-28 remembers between requests. */
type LegacySession = {
  id?: string;
  protocolVersion?: string;
  /** The assistant's own handshake, to be made again when the server has forgotten the session. */
  initialize?: Message;
};

/** What every request of the session carries. MCP 2025-11-25 transports */
export function sessionHeaders({ id, protocolVersion }: LegacySession): Record<string, string> {
  return {
    ...(id !== undefined && { 'mcp-session-id': id }),
    ...(protocolVersion !== undefined && { 'mcp-protocol-version': protocolVersion }),
  };
}

/** The session as the answer to `initialize` and the head of its response make it. */
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
    // It goes into a header, so it has to look like a version.
    ...(version !== undefined && /^[\w.-]+$/.test(version) && { protocolVersion: version }),
  };
}

type HeldSessionPorts = {
  /** Sends a message of a handshake that is ours; its answer has been taken once this resolves. */
  send: (message: Message, signal: AbortSignal) => Promise<void>;
  /** What another session is to be told once its handshake is made. */
  settings: () => readonly Message[];
  log: Log;
};

/** The session that requests of the era before 2026-07-28 belong to. */
export interface HeldSession {
  current(): LegacySession;

  set(session: LegacySession): void;

  /** Aborts when another session takes the place of the present one. */
  readonly replaced: AbortSignal;

  /** The making of another session, while it is under way. */
  revival(): Promise<void> | undefined;

  /** Repeats the handshake, once for all requests that met the session of that id forgotten. */
  revive(forgotten: string): Promise<void>;

  /** Nothing is begun any more; the session as it was. */
  close(): LegacySession;
}

const initialized = readMessage(
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
    // Others wait for it too, so it does not end with the request that happened to begin it.
    const signal = AbortSignal.any([life.signal, AbortSignal.timeout(reviveTimeoutMs)]);
    log.info('session forgotten by the server, starting another');
    try {
      await send(initialize, signal);
      await send(initialized, signal);
      for (const setting of settings()) await repeat(setting, signal);
    } catch (error) {
      // The next request meets the 404 again and tries once more.
      session = before;
      throw error;
    } finally {
      revival = undefined;
    }
  }

  /** A session that does not know of a setting is better than none. */
  async function repeat(setting: Message, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await send(setting, signal).catch((error: unknown) =>
      log.warn('not told to the other session', { what: setting.method, reason: String(error) }),
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

/** What an assistant wished of its session, for another one that takes the place of that. */
interface SessionSettings {
  /** Takes note of a request that the server agreed to. */
  learn(request: Message): void;

  /** The requests that are to be made again. */
  all(): readonly Message[];

  /** A session begins that knows of nothing. */
  forget(): void;
}

const most = 1000;

/**
 * The log level that was set last, and the subscriptions to resources that stand, a thousand at most.
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
