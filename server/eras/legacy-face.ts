import { randomBytes } from 'node:crypto';

import type { UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import type { Asker } from './asker.ts';
import { listScopes } from './change-kinds.ts';
import { discover } from './discover.ts';
import { initializeAnswer, modernCapabilities } from './initialize-answer.ts';
import { LegacySessionOverModern } from './legacy-session-over-modern.ts';
import { readMessage, textAt, type Message } from './message.ts';
import { toldLive, toldNothing, toldOnce } from './told.ts';

const sessionIdBytes = 24;

/**
 * Upstreams of the modern era as ones of the older: a session that `initialize` opens, a stream of what is
 * told unasked, requests to the caller. Nothing of a session is at the upstream, which hears of who asks with
 * every request. A session opens for its owner and nobody else.
 *
 * MCP 2025-11-25 and 2026-07-28 transports
 */
export class LegacyFace {
  readonly #sessions = new Map<string, LegacySessionOverModern>();

  /** How many sessions are open. */
  get size(): number {
    return this.#sessions.size;
  }

  /** Whether this id names a session here, of whomever. */
  holds(sessionId: string | undefined): boolean {
    return sessionId !== undefined && this.#sessions.has(sessionId);
  }

  /**
   * Opens a session; `undefined` when the upstream does not speak the modern era.
   *
   * @throws {UpstreamError} when it cannot be asked
   */
  async initialize(
    initialize: Message,
    { upstream, owner }: Asker,
    signal: AbortSignal,
  ): Promise<UpstreamAnswer | undefined> {
    const client = {
      capabilities: modernCapabilities(initialize),
      clientInfo: textAt(initialize, 'params', 'clientInfo'),
      logLevel: undefined,
    };
    const discovered = await discover(upstream, client, signal);
    if (discovered.outcome !== 'modern') return undefined;
    const sessionId = randomBytes(sessionIdBytes).toString('base64url');
    const { answer } = discovered;
    this.#sessions.set(sessionId, new LegacySessionOverModern({ owner, client, answer }));
    return { ...toldOnce(initializeAnswer(initialize, answer)), sessionId };
  }

  /** A request within a session. */
  async send(
    { method, headers, body = Buffer.alloc(0), signal }: UpstreamRequest,
    { owner, scopes, upstream }: Asker,
  ): Promise<UpstreamAnswer> {
    const sessionId = headers['mcp-session-id'] ?? '';
    const session = this.#sessions.get(sessionId);
    if (session?.owner !== owner) return toldNothing(404);
    if (method === 'DELETE') {
      this.#sessions.delete(sessionId);
      session.close();
      return toldNothing(204);
    }
    if (method === 'GET') {
      const lists = session.lists.filter((list) => {
        const scope = listScopes[list];
        return scope !== undefined && scopes.includes(scope);
      });
      return toldLive(session.changes.follow(lists, { upstream, signal }));
    }
    const message = readMessage(body);
    if (!message) return toldNothing(400);
    return session.take(message, { upstream, signal, headers });
  }

  close(): void {
    for (const session of this.#sessions.values()) session.close();
    this.#sessions.clear();
  }
}
