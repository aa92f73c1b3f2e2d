import {
  creditFrame,
  frameType,
  jsonFrame,
  windowBytes,
  type Head,
  type Opening,
  type Reset,
  type ResetCode,
} from 'latchkey-mcp/tunnel-frames';
import { emptyAnswer } from '#gateway/adapter-messages';
import { answerHead, UpstreamError, type UpstreamAnswer } from '#gateway/upstream';
import { IncomingBody, OutgoingBody } from './flow-control.ts';

/** Answers up to this length are delivered whole, which costs half as much as streaming them. */
const shortBytes = 64 * 1024;
const idleTimeoutMs = 600_000;
const eventStream = 'text/event-stream';

/** The answer if there is no capacity for a caller: try again in a second. */
export const busyAnswer: UpstreamAnswer = { ...emptyAnswer(503), retryAfterSeconds: 1 };

export interface TunnelStreamOptions {
  readonly id: number;
  /** Whether the stream only listens: its answer has no end of its own. */
  readonly isListening: boolean;
  readonly send: (frame: Buffer) => void;
  /** Called when no part of the request is in memory any more; perhaps more than once. */
  readonly onSent?: (() => void) | undefined;
  /** Called with the change in the number of bytes that wait for the caller, while the stream is open. */
  readonly onBuffered: (bytes: number) => void;
  /** Called once, when both sides are done with the stream. */
  readonly onClosed: () => void;
  /** A monotonic clock. */
  readonly nowMs: () => number;
}

/**
 * One request in a tunnel, and its answer: HEAD and DATA as they arrive, with back-pressure.
 * A handler returns `false` when the other side broke the protocol, which ends only this stream.
 */
export class TunnelStream {
  readonly #options: TunnelStreamOptions;
  readonly #incoming = new IncomingBody(windowBytes);
  readonly #answered = Promise.withResolvers<UpstreamAnswer>();
  #outgoing: OutgoingBody | undefined;
  #head: Omit<UpstreamAnswer, 'body'> | undefined;
  #isDelivered = false;
  #hasEnded = false;
  #isClosed = false;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;
  #waitingSinceMs: number | undefined;

  constructor(options: TunnelStreamOptions) {
    this.#options = options;
    // Without this, a failure before the caller awaits the answer would be an unhandled rejection.
    this.#answered.promise.catch(() => undefined);
  }

  /** The answer, with a short body whole. @throws {UpstreamError} */
  get answer(): Promise<UpstreamAnswer> {
    return this.#answered.promise;
  }

  /** @throws {RangeError} when the headers are longer than a frame may be */
  open(payload: Opening, body: Uint8Array | undefined): void {
    const { id, send, onSent, nowMs } = this.#options;
    send(jsonFrame(frameType.open, id, payload));
    this.#waitingSinceMs = nowMs();
    this.#outgoing = new OutgoingBody(body, { stream: id, windowBytes, send, onSent });
    this.#outgoing.flush();
  }

  onHead(received: Head | undefined): boolean {
    if (!received || this.#head) return this.#violate('its head cannot be read');
    const head = answerHead(received.status, received.headers);
    this.#head = head;
    this.#waitingSinceMs = this.#options.nowMs();
    if (this.#options.isListening) this.#deliver();
    // Most streams end in the same turn, and are then delivered whole.
    else if (head.mediaType === eventStream) queueMicrotask(() => this.#deliver());
    return true;
  }

  onData(piece: Buffer): boolean {
    if (!this.#head || this.#hasEnded) return this.#violate('data without a head');
    if (!this.#incoming.push(piece)) return this.#violate('more data than it was allowed');
    if (!this.#isDelivered) this.#waitingSinceMs = this.#options.nowMs();
    this.#options.onBuffered(piece.length);
    if (this.#isClosed) return true;
    if (!this.#isDelivered && this.#incoming.bytes > shortBytes) this.#deliver();
    this.#wake?.();
    return true;
  }

  onEnd(): boolean {
    if (!this.#head || this.#hasEnded) return this.#violate('an end without a head');
    this.#hasEnded = true;
    if (!this.#isDelivered) {
      this.#isDelivered = true;
      const body = this.#take() ?? new Uint8Array();
      this.#answered.resolve({ ...this.#head, body });
    }
    this.#wake?.();
    // The agent answered before it read the whole request, so it does not need the rest.
    if (this.#outgoing?.hasEnded) this.#close();
    else this.reset('cancelled', 'answered before all was said');
    return true;
  }

  onReset({ code, detail }: Reset): void {
    const message = detail === '' ? code : `${code}: ${detail}`;
    if (code === 'busy' && !this.#head) {
      this.#isDelivered = true;
      this.#answered.resolve(busyAnswer);
    }
    const reason = `the agent ended the call, ${message}`;
    this.fail(new UpstreamError(errorCode(code), reason, { detail: detail || code }));
  }

  onCredit(bytes: number | undefined): boolean {
    if (bytes === undefined) return this.#violate('a credit of nothing');
    this.#outgoing?.allow(bytes);
    return true;
  }

  /** Tells the other side to stop sending. */
  reset(code: ResetCode, detail: string): void {
    if (this.#isClosed) return;
    this.#options.send(jsonFrame(frameType.reset, this.#options.id, { code, detail }));
    this.#close();
  }

  /** Ends the stream without telling the other side. Data that has arrived is still delivered. */
  fail(error: Error): void {
    if (this.#isClosed) return;
    this.#failure = this.#hasEnded ? undefined : error;
    this.#answered.reject(error);
    this.#close();
    this.#wake?.();
  }

  /** Ends the stream for the caller and for the other side. */
  end(code: ResetCode, error: Error): void {
    if (this.#isClosed) return;
    this.#options.send(
      jsonFrame(frameType.reset, this.#options.id, { code, detail: error.message }),
    );
    this.fail(error);
  }

  /** Ends the stream for both sides, and drops what waits for the caller. */
  evict(error: Error): void {
    this.end('cancelled', error);
    this.#incoming.take();
  }

  /** How many bytes wait for the caller. */
  get waitingBytes(): number {
    return this.#incoming.bytes;
  }

  /** Whether the other side has not sent anything for too long. */
  isTimedOut(nowMs: number): boolean {
    return this.#waitingSinceMs !== undefined && nowMs - this.#waitingSinceMs > idleTimeoutMs;
  }

  #violate(why: string): false {
    this.end('broken', new UpstreamError('broken', `the agent sent ${why}`));
    return false;
  }

  #deliver(): void {
    if (this.#isDelivered || this.#failure) return;
    this.#isDelivered = true;
    this.#waitingSinceMs = undefined;
    if (this.#head) this.#answered.resolve({ ...this.#head, body: this.#body() });
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#waitingSinceMs = undefined;
    this.#outgoing?.drop();
    this.#options.onBuffered(-this.#incoming.bytes);
    this.#options.onClosed();
  }

  #take(): Buffer | undefined {
    const piece = this.#incoming.take();
    if (piece && !this.#isClosed) this.#options.onBuffered(-piece.length);
    return piece;
  }

  async *#body(): AsyncGenerator<Uint8Array> {
    const { id, isListening, nowMs, send } = this.#options;
    try {
      for (;;) {
        const piece = this.#take();
        if (piece) {
          yield piece;
          const credit = this.#isClosed ? 0 : this.#incoming.credit();
          if (credit > 0) send(creditFrame(id, credit));
        } else if (this.#failure) throw this.#failure;
        else if (this.#hasEnded) return;
        else {
          if (!isListening) this.#waitingSinceMs = nowMs();
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          this.#wake = undefined;
          this.#waitingSinceMs = undefined;
        }
      }
    } finally {
      this.reset('cancelled', 'the caller stopped reading');
    }
  }
}

function errorCode(code: ResetCode): UpstreamError['code'] {
  switch (code) {
    case 'unknown_server':
      return 'not_served';
    case 'unreachable':
    case 'unknown_host':
    case 'tls':
    case 'timeout':
    case 'too_large':
      return code;
    case 'cancelled':
    case 'broken':
    case 'busy':
      return 'broken';
  }
}
