import type { Admission } from './admission.ts';
import { AnswerWatch } from './answer-watch.ts';
import type { GatewayAnswer } from './exchange.ts';
import type { GatewayRefusal, RefusalCode } from './gateway-refusal.ts';
import type { Envelope } from './json-scan.ts';
import type { CallOutcome, NoteCall } from './metered-call.ts';

const unanswered: ReadonlySet<RefusalCode> = new Set([
  'upstream_unreachable',
  'upstream_failed',
  'upstream_busy',
  'unreadable_tools',
  'too_slow',
  'agent_offline',
  'unavailable',
  'fault',
]);

/**
 * Follows one request from its arrival to the end of its answer, and notes it then, once. Noted are
 * requests that were let in and have an answer with an end: no notifications, no listening.
 */
export class Metering {
  readonly #startedAt = performance.now();
  readonly #note: NoteCall;
  #admission: Admission | undefined;
  #envelope: Envelope | undefined;

  constructor(note: NoteCall) {
    this.#note = note;
  }

  /** From here on it counts, for this caller and server. */
  admitted(admission: Admission): void {
    this.#admission = admission;
  }

  read(envelope: Envelope): void {
    this.#envelope = envelope;
  }

  /** It came to nothing. */
  failed({ code }: GatewayRefusal): void {
    if (code === 'cancelled') this.#over('ok');
    else this.#over(unanswered.has(code) ? 'upstream-error' : 'refused');
  }

  /** It was answered whole. */
  answered({ headers, body }: GatewayAnswer): void {
    const watch = new AnswerWatch(headers['Content-Type']);
    if (typeof body === 'string') watch.push(Buffer.from(body));
    else if (body instanceof Uint8Array) watch.push(body);
    this.#over(watch.isError() ? 'tool-error' : 'ok');
  }

  /** The body as it passes, and `finish` at its end. A caller that leaves before that is no error. */
  async *following(
    { headers }: GatewayAnswer,
    chunks: AsyncIterable<Uint8Array>,
    finish: () => void,
  ): AsyncGenerator<Uint8Array> {
    const watch = new AnswerWatch(headers['Content-Type']);
    try {
      for await (const chunk of chunks) {
        watch.push(chunk);
        yield chunk;
      }
      this.#over(watch.isError() ? 'tool-error' : 'ok');
    } catch (error) {
      const isOurs = error instanceof Error && error.name === 'AbortError';
      this.#over(isOurs ? 'ok' : 'upstream-error');
      throw error;
    } finally {
      finish();
      this.#over('ok');
    }
  }

  #over(outcome: CallOutcome): void {
    const admission = this.#admission;
    this.#admission = undefined;
    if (!admission || !isCall(this.#envelope)) return;
    const { method, name } = this.#envelope ?? {};
    this.#note({
      serverId: admission.server.id,
      credential: admission.credential,
      method,
      tool: method === 'tools/call' ? name : undefined,
      outcome,
      ms: performance.now() - this.#startedAt,
    });
  }
}

/** Whether a message is a request whose answer has an end. One that was refused unread counts: most that are sent are calls. */
export function isCall(envelope: Envelope | undefined): boolean {
  if (!envelope) return true;
  return envelope.kind === 'request' && envelope.method !== 'subscriptions/listen';
}
