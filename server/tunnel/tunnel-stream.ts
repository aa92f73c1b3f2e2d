import { UpstreamError, type UpstreamAnswer, type UpstreamRequest } from '#gateway/upstream';
import { ArrivingBody } from './arriving-body.ts';
import { busyAnswer } from './busy-answer.ts';
import { DepartingBody } from './departing-body.ts';
import { creditFrame, frameType, jsonFrame } from './frame.ts';
import type { Head, Reset, ResetCode } from './payloads.ts';

const windowBytes = 256 * 1024;
/** Up to this many bytes an answer is handed on whole, which costs half of streaming it. */
const shortBytes = 64 * 1024;
const patienceMs = 600_000;
const eventStream = 'text/event-stream';

/** What a stream asks an agent for. */
export interface OpenPayload {
  readonly server: string;
  readonly method: UpstreamRequest['method'];
  readonly headers: Readonly<Record<string, string>>;
  /** Stands for whoever is asking, and tells nothing about them. */
  readonly caller: string;
}

export interface TunnelStreamPorts {
  readonly id: number;
  /** Whether its answer has no end of its own. */
  readonly isListening: boolean;
  readonly send: (frame: Buffer) => void;
  /** Told when nothing of the request is kept any more; perhaps more than once. */
  readonly sent?: (() => void) | undefined;
  /** Told how many bytes more, or fewer, wait for the caller while the stream is open. */
  readonly held: (bytes: number) => void;
  /** Told once, when both sides are done with the stream. */
  readonly over: () => void;
  /** Milliseconds that only grow. */
  readonly nowMs: () => number;
}

/**
 * One request in a tunnel, and its answer: HEAD and DATA as they come, held back when nobody takes them.
 * What the other side sends against the rules is answered `false`, and ends no more than this stream.
 */
export class TunnelStream {
  readonly #ports: TunnelStreamPorts;
  readonly #arriving = new ArrivingBody(windowBytes);
  readonly #answered = Promise.withResolvers<UpstreamAnswer>();
  #departing: DepartingBody | undefined;
  #head: Head | undefined;
  #isHandedOn = false;
  #hasEnded = false;
  #isOver = false;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;
  #waitsSinceMs: number | undefined;

  constructor(ports: TunnelStreamPorts) {
    this.#ports = ports;
    // Who asked hears of a failure; one that nobody asked about is none.
    this.#answered.promise.catch(() => undefined);
  }

  /** The head of the answer, with a short body whole. @throws {UpstreamError} */
  get answer(): Promise<UpstreamAnswer> {
    return this.#answered.promise;
  }

  /** @throws {RangeError} when the headers are longer than a frame may be */
  open(payload: OpenPayload, body: Uint8Array | undefined): void {
    const { id, send, sent, nowMs } = this.#ports;
    send(jsonFrame(frameType.open, id, payload));
    this.#waitsSinceMs = nowMs();
    this.#departing = new DepartingBody(body, { stream: id, windowBytes, send, sent });
    this.#departing.flush();
  }

  gotHead(head: Head | undefined): boolean {
    if (!head || this.#head) return this.#broken('its head cannot be read');
    this.#head = head;
    const isStream = this.#ports.isListening || mediaTypeOf(head) === eventStream;
    if (isStream) this.#handOn();
    else this.#waitsSinceMs = this.#ports.nowMs();
    return true;
  }

  gotData(piece: Buffer): boolean {
    if (!this.#head || this.#hasEnded) return this.#broken('data without a head');
    if (!this.#arriving.push(piece)) return this.#broken('more data than it was allowed');
    if (!this.#isHandedOn) this.#waitsSinceMs = this.#ports.nowMs();
    this.#ports.held(piece.length);
    if (this.#isOver) return true;
    if (!this.#isHandedOn && this.#arriving.bytes > shortBytes) this.#handOn();
    this.#wake?.();
    return true;
  }

  gotEnd(): boolean {
    if (!this.#head || this.#hasEnded) return this.#broken('an end without a head');
    this.#hasEnded = true;
    if (!this.#isHandedOn) {
      this.#isHandedOn = true;
      const body = this.#take() ?? new Uint8Array();
      this.#answered.resolve({ ...answerOf(this.#head), body });
    }
    this.#wake?.();
    // An answer to half a request needs no other half.
    if (this.#departing?.hasEnded) this.#finish();
    else this.reset('cancelled', 'answered before all was said');
    return true;
  }

  gotReset({ code, detail }: Reset): void {
    const words = detail === '' ? code : `${code}: ${detail}`;
    if (code === 'busy' && !this.#head) {
      this.#isHandedOn = true;
      this.#answered.resolve(busyAnswer);
    }
    this.fail(new UpstreamError(errorCode(code), `the agent ended the call, ${words}`));
  }

  gotCredit(bytes: number | undefined): boolean {
    if (bytes === undefined) return this.#broken('a credit of nothing');
    this.#departing?.allow(bytes);
    return true;
  }

  /** Tells the other side that nobody wants the rest. */
  reset(code: ResetCode, detail: string): void {
    if (this.#isOver) return;
    this.#ports.send(jsonFrame(frameType.reset, this.#ports.id, { code, detail }));
    this.#finish();
  }

  /** Ends it without a word to the other side. What has come is still handed on. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#failure = this.#hasEnded ? undefined : error;
    this.#answered.reject(error);
    this.#finish();
    this.#wake?.();
  }

  /** Ends it for the caller and for the other side. */
  end(code: ResetCode, error: Error): void {
    if (this.#isOver) return;
    this.#ports.send(jsonFrame(frameType.reset, this.#ports.id, { code, detail: error.message }));
    this.fail(error);
  }

  /** Ends it for both sides, and keeps nothing of it for the caller. */
  giveUp(error: Error): void {
    this.end('cancelled', error);
    this.#arriving.take();
  }

  /** How many bytes wait for the caller. */
  get waitingBytes(): number {
    return this.#arriving.bytes;
  }

  /** Whether it has been waiting for the other side for too long. */
  isLate(nowMs: number): boolean {
    return this.#waitsSinceMs !== undefined && nowMs - this.#waitsSinceMs > patienceMs;
  }

  #broken(why: string): false {
    this.end('broken', new UpstreamError('broken', `the agent sent ${why}`));
    return false;
  }

  #handOn(): void {
    this.#isHandedOn = true;
    this.#waitsSinceMs = undefined;
    if (this.#head) this.#answered.resolve({ ...answerOf(this.#head), body: this.#body() });
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#waitsSinceMs = undefined;
    this.#departing?.drop();
    this.#ports.held(-this.#arriving.bytes);
    this.#ports.over();
  }

  #take(): Buffer | undefined {
    const piece = this.#arriving.take();
    if (piece && !this.#isOver) this.#ports.held(-piece.length);
    return piece;
  }

  async *#body(): AsyncGenerator<Uint8Array> {
    const { id, isListening, nowMs, send } = this.#ports;
    try {
      for (;;) {
        const piece = this.#take();
        if (piece) {
          yield piece;
          const credit = this.#isOver ? 0 : this.#arriving.credit();
          if (credit > 0) send(creditFrame(id, credit));
        } else if (this.#failure) throw this.#failure;
        else if (this.#hasEnded) return;
        else {
          if (!isListening) this.#waitsSinceMs = nowMs();
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          this.#wake = undefined;
          this.#waitsSinceMs = undefined;
        }
      }
    } finally {
      this.reset('cancelled', 'nobody reads on');
    }
  }
}

function mediaTypeOf({ headers }: Head): string {
  return headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? '';
}

function answerOf(head: Head): Omit<UpstreamAnswer, 'body'> {
  const retryAfter = /^[1-9]\d{0,5}$/.exec(head.headers['retry-after'] ?? '')?.[0];
  return {
    status: head.status,
    mediaType: mediaTypeOf(head),
    sessionId: head.headers['mcp-session-id'],
    retryAfterSeconds: retryAfter === undefined ? undefined : Number(retryAfter),
  };
}

function errorCode(code: ResetCode): UpstreamError['code'] {
  switch (code) {
    case 'unknown_server':
    case 'unreachable':
      return 'unreachable';
    case 'timeout':
      return 'timeout';
    case 'cancelled':
    case 'too_large':
    case 'broken':
    case 'busy':
      return 'broken';
  }
}
