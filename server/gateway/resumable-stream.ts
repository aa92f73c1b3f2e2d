import type { LostCaller } from './lost-caller.ts';
import type { SseEvent } from './sse-event.ts';
import { withEventId } from './with-event-id.ts';

/** What a stream is for: the answer to a request, or whatever the upstream says unasked. */
export type StreamKind = 'answer' | 'unasked';

/** Says whether there is room for an event of a stream. */
type KeepEvent = (number: number, bytes: number) => boolean;

/**
 * A stream of events to one caller who may lose it: the events have ids of ours, are kept for a while, and
 * go on behind any of them for who asks. One reader at a time gets them, the one who asked last.
 *
 * MCP 2025-11-25 transports, "Resumability and Redelivery"
 */
export class ResumableStream {
  readonly id: string;
  readonly kind: StreamKind;
  readonly caller: LostCaller;
  /** The upstream's own id of its last event, for when it is the upstream that ends the stream early. */
  upstreamEventId: string | undefined;
  /** The response that the stream was opened for has passed. */
  isAnswered = false;
  /** The id of the request that it answers, as JSON text. */
  answered: string | undefined;
  readonly #keep: KeepEvent;
  #kept: Buffer[] = [];
  #lastNumber = 0;
  #reader = 0;
  #isOpen = true;
  #changed = Promise.withResolvers<void>();

  constructor(id: string, kind: StreamKind, caller: LostCaller, keep: KeepEvent) {
    this.id = id;
    this.kind = kind;
    this.caller = caller;
    this.#keep = keep;
  }

  /** Whether more may come. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Whether it is of that kind, and nothing more comes. */
  isOver(kind: StreamKind): boolean {
    return this.kind === kind && !this.#isOpen;
  }

  /** Whether any event of it can be asked for again. */
  get isKept(): boolean {
    return this.#kept.length > 0;
  }

  get lastNumber(): number {
    return this.#lastNumber;
  }

  /** Whether nothing behind the event of this number has been lost. */
  has(number: number): boolean {
    return number <= this.#lastNumber && number >= this.#lastNumber - this.#kept.length;
  }

  /** Makes the one who asks the stream's reader; the function says whether it still is. */
  read(): () => boolean {
    this.#reader += 1;
    const reader = this.#reader;
    return () => reader === this.#reader;
  }

  /** The event as it goes to the caller. One without data and id, as a comment, is not worth keeping. */
  push(event: SseEvent): Uint8Array {
    this.upstreamEventId = event.id ?? this.upstreamEventId;
    return event.data.length === 0 && event.id === undefined ? event.raw : this.#number(event);
  }

  /** An event without a message, which gives the caller an id to go on from. */
  prime(): Uint8Array {
    return this.#number({ raw: Buffer.from('data: \n\n'), data: Buffer.alloc(0) });
  }

  #number(event: SseEvent): Uint8Array {
    const number = this.#lastNumber + 1;
    const bytes = withEventId(event, `${this.id}-${number}`);
    if (this.#keep(number, bytes.length)) this.#kept.push(bytes);
    else this.#kept = [];
    this.#lastNumber = number;
    this.#wake();
    return bytes;
  }

  /** Forgets an event; those before it are forgotten already. */
  drop(number: number): void {
    if (number === this.#lastNumber - this.#kept.length + 1) this.#kept.shift();
  }

  /** Nothing more comes. */
  end(): void {
    this.#isOpen = false;
    this.#wake();
  }

  /** What came behind the event of this number, and what comes, until the stream or `signal` ends it. */
  async *behind(number: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const isReader = this.read();
    this.caller.back();
    signal.addEventListener('abort', () => this.#wake());
    try {
      for (let last = number; isReader() && !signal.aborted && this.has(last);) {
        const next = this.#kept[this.#kept.length - (this.#lastNumber - last)];
        if (next) {
          last += 1;
          yield next;
        } else if (this.#isOpen) await this.#changed.promise;
        else return;
      }
    } finally {
      if (isReader() && this.#isOpen) this.caller.left();
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
