// Sessions of the legacy era at servers with skills.
import { randomBytes } from 'node:crypto';

import { emptyAnswer } from '#gateway/adapter-messages';
import { GatewayRefusal } from '#gateway/gateway-refusal';
import { type UpstreamAnswer, type UpstreamRequest } from '#gateway/upstream';
import { onEnd } from '#model/streams';
import { type Envelope } from 'latchkey-mcp/message';

const ownPrefix = 'skills-';
const maxSessions = 100_000;

/** A session of the legacy era at a server with skills. */
export interface SkillSession {
  /** Whether only we have the session, because the upstream has none. */
  readonly isOwn: boolean;
  readonly subscribed: Set<string>;
  /** The version of the lists that the session was last notified of. */
  notifiedVersion: number;
  /** The stream that it listens on; a newer one replaces it. */
  listening: AbortController | undefined;
  /** Requests in progress by id, as JSON text; only for sessions that the upstream does not have. */
  readonly active: Map<string, AbortController>;
}

/**
 * The sessions at servers with skills, by session owner and id, which is the upstream's or ours. An upstream may end a
 * session without telling us; when there are too many, the oldest is forgotten.
 */
export class SkillSessions {
  readonly #sessions = new Map<string, SkillSession>();
  readonly #max: number;

  constructor(max = maxSessions) {
    this.#max = max;
  }

  /** Opens a session. `id` is the upstream's, if it has sessions. @returns its id */
  open(owner: string, id: string | undefined, version: number): string {
    this.#makeRoom();
    const sessionId = id ?? ownPrefix + randomBytes(24).toString('base64url');
    this.#sessions.set(`${owner} ${sessionId}`, {
      isOwn: id === undefined,
      subscribed: new Set(),
      notifiedVersion: version,
      listening: undefined,
      active: new Map(),
    });
    return sessionId;
  }

  find(owner: string, id: string | undefined): SkillSession | undefined {
    return id === undefined ? undefined : this.#sessions.get(`${owner} ${id}`);
  }

  close(owner: string, id: string | undefined): void {
    const session = this.find(owner, id);
    session?.listening?.abort();
    this.#sessions.delete(`${owner} ${id}`);
  }

  #makeRoom(): void {
    const [oldest] = this.#sessions;
    if (!oldest || this.#sessions.size < this.#max) return;
    const [name, session] = oldest;
    session.listening?.abort();
    this.#sessions.delete(name);
  }

  /** Whether we made an id, even if its session has ended. */
  isOwnId(id: string | undefined): boolean {
    return id?.startsWith(ownPrefix) ?? false;
  }
}

/**
 * Sends a message in a session that the upstream does not have. A cancellation cannot reach the upstream as a
 * notification there, so it aborts the request instead.
 *
 * @throws {GatewayRefusal} `cancelled`
 */
export async function sendCancellable(
  { request, envelope }: { request: UpstreamRequest; envelope: Envelope },
  { active }: SkillSession,
  send: (request: UpstreamRequest) => Promise<UpstreamAnswer>,
): Promise<UpstreamAnswer> {
  if (envelope.method === 'notifications/cancelled') {
    active.get(envelope.requestId ?? '')?.abort();
    return emptyAnswer();
  }
  const { id } = envelope;
  if (envelope.kind !== 'request' || id === undefined) return send(request);
  const ending = new AbortController();
  const end = () => ending.abort();
  request.signal.addEventListener('abort', end);
  const done = () => {
    request.signal.removeEventListener('abort', end);
    if (active.get(id) === ending) active.delete(id);
  };
  active.set(id, ending);
  try {
    const answer = await send({ ...request, signal: ending.signal });
    if (answer.body instanceof Uint8Array) done();
    return answer.body instanceof Uint8Array
      ? answer
      : { ...answer, body: onEnd(answer.body, done) };
  } catch (cause) {
    done();
    const isCancelled = ending.signal.aborted && !request.signal.aborted;
    throw isCancelled ? new GatewayRefusal('cancelled', { cause }) : cause;
  }
}
