import type { Clock, EpochSeconds } from '#clock/clock';
import type { LostCaller } from './lost-caller.ts';
import { ResumableStream, type StreamKind } from './resumable-stream.ts';

const keptSeconds = 120;
const maxBytes = 1024 * 1024;
const maxStreams = 1000;

/** How much all sessions together may keep, and do. */
export interface KeptBudget {
  readonly maxBytes: number;
  bytes: number;
}

/**
 * The streams of one session and their last events: up to a megabyte, for two minutes, so that a caller
 * who notices a minute late that its stream is gone loses nothing. Their ids mean something in this
 * session only.
 */
export class SessionStreams {
  readonly #clock: Clock;
  readonly #budget: KeptBudget;
  readonly #streams = new Map<string, ResumableStream>();
  #kept: { stream: ResumableStream; number: number; bytes: number; at: EpochSeconds }[] = [];
  #bytes = 0;
  #lastId = 0;

  constructor(clock: Clock, budget: KeptBudget) {
    this.#clock = clock;
    this.#budget = budget;
  }

  get hasOpen(): boolean {
    return [...this.#streams.values()].some(({ isOpen }) => isOpen);
  }

  /** `answered` is the id of the request that the stream answers. */
  open(kind: StreamKind, caller: LostCaller, answered?: string): ResumableStream {
    this.#lastId += 1;
    const id = `${kind === 'answer' ? 'a' : 'u'}${this.#lastId}`;
    const keep = (number: number, bytes: number) => this.#keep(stream, number, bytes);
    const stream: ResumableStream = new ResumableStream(id, kind, caller, keep);
    stream.answered = answered;
    this.#streams.set(id, stream);
    this.#forgetOld();
    if (this.#streams.size >= maxStreams / 10) this.#forgetEnded();
    return stream;
  }

  /** The stream that an event id is of, and the event's number; `undefined` where what followed is lost. */
  find(eventId: string): { stream: ResumableStream; number: number } | undefined {
    this.#forgetOld();
    const [, id = '', digits = ''] = /^([au]\d{1,9})-(\d{1,9})$/.exec(eventId) ?? [];
    const stream = this.#streams.get(id);
    const number = Number(digits);
    return stream?.has(number) ? { stream, number } : undefined;
  }

  /** The stream of what the upstream says unasked whose caller is away just now. */
  abandoned(): ResumableStream | undefined {
    const streams = [...this.#streams.values()];
    return streams.find(
      ({ kind, isOpen, caller }) => kind === 'unasked' && isOpen && caller.isAway,
    );
  }

  /** Ends the streams of what the upstream says unasked, as it has forgotten whom to. */
  endUnasked(): void {
    for (const { kind, isOpen, caller } of this.#streams.values()) {
      if (kind === 'unasked' && isOpen) caller.giveUp();
    }
  }

  forgetAll(): void {
    while (this.#kept.length > 0) this.#drop();
    this.#streams.clear();
  }

  #keep(stream: ResumableStream, number: number, bytes: number): boolean {
    this.#forgetOld();
    while (this.#kept.length > 0 && this.#bytes + bytes > maxBytes) this.#drop();
    const budget = this.#budget;
    if (bytes > maxBytes || budget.bytes + bytes > budget.maxBytes) return false;
    this.#bytes += bytes;
    budget.bytes += bytes;
    this.#kept.push({ stream, number, bytes, at: this.#clock.now() });
    return true;
  }

  #drop(): void {
    const oldest = this.#kept.shift();
    if (!oldest) return;
    this.#bytes -= oldest.bytes;
    this.#budget.bytes -= oldest.bytes;
    oldest.stream.drop(oldest.number);
  }

  /** Events that are too old. */
  #forgetOld(): void {
    const oldest = this.#clock.now() - keptSeconds;
    while ((this.#kept[0]?.at ?? oldest) < oldest) this.#drop();
  }

  /** The streams that have ended and of which nothing is kept, and the oldest where there are too many. */
  #forgetEnded(): void {
    for (const [id, stream] of this.#streams) {
      const isTooMany = this.#streams.size > maxStreams;
      if (isTooMany || (!stream.isOpen && !stream.isKept)) this.#streams.delete(id);
    }
  }
}
