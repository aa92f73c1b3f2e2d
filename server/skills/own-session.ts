import { GatewayRefusal } from '#gateway/gateway-refusal';
import type { Envelope } from '#gateway/json-scan';
import type { UpstreamAnswer, UpstreamRequest } from '#gateway/upstream';
import type { SkillSession } from './skill-sessions.ts';

/**
 * A session whose upstream keeps none: what a caller cancels in it never reaches the upstream as a notification,
 * so the request itself is what ends.
 */
export class OwnSession {
  readonly #session: SkillSession;

  constructor(session: SkillSession) {
    this.#session = session;
  }

  /** @throws {GatewayRefusal} `cancelled` */
  async carry(
    { request, envelope }: { request: UpstreamRequest; envelope: Envelope },
    send: (request: UpstreamRequest) => Promise<UpstreamAnswer>,
  ): Promise<UpstreamAnswer> {
    const { underWay } = this.#session;
    if (envelope.method === 'notifications/cancelled') {
      underWay.get(envelope.requestId ?? '')?.abort();
      return accepted;
    }
    const { id } = envelope;
    if (envelope.kind !== 'request' || id === undefined) return send(request);
    const ending = new AbortController();
    const end = () => ending.abort();
    request.signal.addEventListener('abort', end);
    const over = () => {
      request.signal.removeEventListener('abort', end);
      if (underWay.get(id) === ending) underWay.delete(id);
    };
    underWay.set(id, ending);
    try {
      const answer = await send({ ...request, signal: ending.signal });
      if (answer.body instanceof Uint8Array) over();
      return answer.body instanceof Uint8Array
        ? answer
        : { ...answer, body: until(answer.body, over) };
    } catch (cause) {
      over();
      const isTheirs = ending.signal.aborted && !request.signal.aborted;
      throw isTheirs ? new GatewayRefusal('cancelled', { cause }) : cause;
    }
  }
}

const accepted: UpstreamAnswer = {
  status: 202,
  mediaType: '',
  sessionId: undefined,
  retryAfterSeconds: undefined,
  body: new Uint8Array(),
};

async function* until(
  chunks: AsyncIterable<Uint8Array>,
  over: () => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } finally {
    over();
  }
}
