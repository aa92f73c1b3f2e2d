import { readMessage, type Message } from '#jsonrpc/message';
import type { Log } from '#log/log';
import type { LegacySession } from './legacy-session.ts';

export type HeldSessionPorts = {
  /** Sends a message of a handshake that nobody asked for; its answer has been taken once this resolves. */
  send: (message: Message, signal: AbortSignal) => Promise<void>;
  /** What another session is to be told once its handshake is made. */
  wishes: () => readonly Message[];
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

  /** Makes the handshake anew, once for all requests that met the session of that id forgotten. */
  revive(forgotten: string): Promise<void>;

  /** Nothing is begun any more; the session as it was. */
  close(): LegacySession;
}

const initialized = readMessage(
  Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}'),
);

const reviveTimeoutMs = 30_000;

export function heldSession({ send, wishes, log }: HeldSessionPorts): HeldSession {
  const life = new AbortController();
  let session: LegacySession = {};
  let revival: Promise<void> | undefined;
  let latestId: string | undefined;
  let reign = new AbortController();

  async function shakeHands(before: LegacySession, initialize: Message): Promise<void> {
    // Others wait for it too, so it does not end with the request that happened to begin it.
    const signal = AbortSignal.any([life.signal, AbortSignal.timeout(reviveTimeoutMs)]);
    log.info('session forgotten by the server, starting another');
    try {
      await send(initialize, signal);
      await send(initialized, signal);
      for (const wish of wishes()) await repeat(wish, signal);
    } catch (error) {
      // The next request meets the 404 again and tries once more.
      session = before;
      throw error;
    } finally {
      revival = undefined;
    }
  }

  /** A session that does not know of a wish is better than none. */
  async function repeat(wish: Message, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await send(wish, signal).catch((error: unknown) =>
      log.warn('not told to the other session', { what: wish.method, reason: String(error) }),
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
      revival = shakeHands(session, initialize);
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
