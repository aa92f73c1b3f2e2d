import { BriefMap } from 'latchkey-mcp/brief-map';
import type { EndSignal } from '#model/ending';
import type { Clock, EpochSeconds } from '#model/clock';
import type { Scope } from '#model/scopes';
import { type SseEvent, withEventId } from 'latchkey-mcp/sse';
import type { AnswerMessage } from './filters.ts';

const retentionSeconds = 120;
const maxBytes = 1024 * 1024;
const maxStreams = 1000;
/**
 * Ended streams are dropped each time this many streams were opened: looking through all of them costs too much for
 * every call.
 */
const sweepEvery = 100;
/** What an event costs besides its bytes: its buffer and its entries in two lists. */
const keptEventBytes = 300;

/** The total budget of all sessions for kept events. */
export interface KeptBudget {
  readonly maxBytes: number;
  bytes: number;
}

/**
 * The streams of one session and their latest events, up to a megabyte for two minutes, so that a caller who notices
 * a lost connection after a minute loses nothing. Event ids are valid only in this session.
 */
export class SessionStreams {
  readonly #clock: Clock;
  readonly #budget: KeptBudget;
  readonly #streams = new BriefMap<string, ResumableStream>();
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
    const stream = new ResumableStream(id, kind, caller, this);
    stream.answered = answered;
    this.#streams.set(id, stream);
    this.#forgetOld();
    if (this.#lastId % sweepEvery === 0) this.#forgetEnded();
    if (this.#streams.size > maxStreams) this.#forgetFirst();
    return stream;
  }

  /** The stream and number of an event id; `undefined` if the id is unknown or later events were dropped. */
  find(eventId: string): { stream: ResumableStream; number: number } | undefined {
    this.#forgetOld();
    const [, id = '', digits = ''] = /^([au]\d{1,9})-(\d{1,9})$/.exec(eventId) ?? [];
    const stream = this.#streams.get(id);
    const number = Number(digits);
    return stream?.has(number) ? { stream, number } : undefined;
  }

  /** The stream of unsolicited messages whose caller is disconnected. */
  abandoned(): ResumableStream | undefined {
    const streams = [...this.#streams.values()];
    return streams.find(
      ({ kind, isOpen, caller }) => kind === 'unasked' && isOpen && caller.isAway,
    );
  }

  /** Ends the streams of unsolicited messages, because the upstream no longer knows the session. */
  endUnasked(): void {
    for (const { kind, isOpen, caller } of this.#streams.values()) {
      if (kind === 'unasked' && isOpen) caller.giveUp();
    }
  }

  forgetAll(): void {
    while (this.#kept.length > 0) this.#drop();
    this.#streams.clear();
  }

  /** Records that an event is to be kept; `false` if the budget does not allow it. */
  keep(stream: ResumableStream, number: number, bytes: number): boolean {
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

  /** Drops events that are too old. */
  #forgetOld(): void {
    const oldest = this.#clock.now() - retentionSeconds;
    while ((this.#kept[0]?.at ?? oldest) < oldest) this.#drop();
  }

  /** Drops ended streams without events. */
  #forgetEnded(): void {
    for (const { id, isOpen, isKept } of this.#streams.values()) {
      if (!isOpen && !isKept) this.#streams.delete(id);
    }
  }

  #forgetFirst(): void {
    const [oldest] = this.#streams.values();
    if (oldest) this.#streams.delete(oldest.id);
  }
}

/** The purpose of a stream: the answer to a request, or unsolicited messages. */
export type StreamKind = 'answer' | 'unasked';

/**
 * A stream of events to a caller whose connection may be lost. The gateway gives the events its own ids and keeps them
 * for a while, so that the events after any id can be replayed. Only the latest reader receives events.
 *
 * MCP 2025-11-25 transports, "Resumability and Redelivery"
 */
export class ResumableStream {
  readonly id: string;
  readonly kind: StreamKind;
  /** The upstream's id of its last event, in case the upstream ends the stream early. */
  upstreamEventId: string | undefined;
  /** Whether the response to the request has passed through the stream. */
  isAnswered = false;
  /** The id of the answered request, as JSON text. */
  answered: string | undefined;
  /** The stream that continues this one, after the upstream ended this one. */
  successor: ResumableStream | undefined;
  /** The scopes of its caller, which decide which messages it carries. */
  scopes: readonly Scope[] = [];
  readonly #streams: SessionStreams;
  #caller: LostCaller;
  #kept: Buffer[] = [];
  #lastNumber = 0;
  #reader = 0;
  #isOpen = true;
  /** Resolves with the next change; absent while no one waits for it, as in nearly every stream. */
  #changed: PromiseWithResolvers<void> | undefined;

  constructor(id: string, kind: StreamKind, caller: LostCaller, streams: SessionStreams) {
    this.id = id;
    this.kind = kind;
    this.#caller = caller;
    this.#streams = streams;
  }

  get caller(): LostCaller {
    return this.#caller;
  }

  /** Whether more events may come. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Whether it is of this kind and complete. */
  isOver(kind: StreamKind): boolean {
    return this.kind === kind && !this.#isOpen;
  }

  /** Whether any of its events can be replayed. */
  get isKept(): boolean {
    return this.#kept.length > 0;
  }

  get lastNumber(): number {
    return this.#lastNumber;
  }

  /** Whether no event after this number has been dropped. */
  has(number: number): boolean {
    return number <= this.#lastNumber && number >= this.#lastNumber - this.#kept.length;
  }

  /** Makes the caller of this function the stream's reader; the returned function says whether it still is. */
  read(): () => boolean {
    this.#reader += 1;
    const reader = this.#reader;
    return () => reader === this.#reader;
  }

  /** The event as it goes to the caller. Events without data and id, such as comments, are not kept. */
  push(event: SseEvent): Uint8Array {
    if (event.id !== undefined) {
      this.upstreamEventId = event.id.length <= maxIdLength ? event.id : undefined;
    }
    return event.data.length === 0 && event.id === undefined ? event.raw : this.#number(event);
  }

  /** An event without a message, which gives the caller an id to resume from. */
  prime(): Uint8Array {
    return this.#number({ raw: Buffer.from('data: \n\n'), data: Buffer.alloc(0) });
  }

  #number(event: SseEvent): Uint8Array {
    const number = this.#lastNumber + 1;
    const bytes = withEventId(event, `${this.id}-${number}`);
    const isKept = this.#streams.keep(this, number, bytes.length + keptEventBytes);
    // Most streams have one event. `push` on an empty list would allocate room for many.
    if (isKept && this.#kept.length > 0) this.#kept.push(bytes);
    else this.#kept = isKept ? [bytes] : [];
    this.#lastNumber = number;
    this.#wake();
    return bytes;
  }

  /** Drops an event; earlier ones have already been dropped. */
  drop(number: number): void {
    if (number === this.#lastNumber - this.#kept.length + 1) this.#kept.shift();
  }

  /** Nothing more follows. */
  end(): void {
    this.#isOpen = false;
    // The events may be kept for minutes, and must not keep the whole call in memory.
    this.#caller = noCaller;
    this.#wake();
  }

  /** The events after this number, kept and new, until the stream or `signal` ends. */
  async *behind(number: number, signal: EndSignal): AsyncGenerator<Uint8Array> {
    const isReader = this.read();
    const lost = this.caller.connected();
    signal.addEventListener('abort', () => this.#wake());
    try {
      for (let last = number; isReader() && !signal.aborted && this.has(last);) {
        const next = this.#kept[this.#kept.length - (this.#lastNumber - last)];
        if (next) {
          last += 1;
          yield next;
        } else if (this.#isOpen) await (this.#changed ??= Promise.withResolvers()).promise;
        else return;
      }
    } finally {
      if (isReader() && this.#isOpen) lost();
    }
  }

  #wake(): void {
    this.#changed?.resolve();
    this.#changed = undefined;
  }
}

const graceMs = 60_000;

/**
 * Waits for a caller whose connection was lost: a lost stream of the legacy era cancels nothing and can be resumed for
 * 60 s. Then `giveUp` runs. The loss of a connection may be noticed only after the caller has reconnected, especially
 * at another node, so only the loss of the latest connection counts.
 */
export class LostCaller {
  /** Ends what the caller waits for. Runs at the latest when the caller has been away for 60 s. */
  readonly giveUp: () => void;
  #connections = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(giveUp: () => void) {
    this.giveUp = giveUp;
  }

  get isAway(): boolean {
    return this.#timer !== undefined;
  }

  /** Notes a connection, which replaces the one before. Call the returned function when it is lost. */
  connected(): () => void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#connections += 1;
    const connection = this.#connections;
    return () => {
      if (connection !== this.#connections) return;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(this.giveUp, graceMs).unref();
    };
  }
}

/** The caller of a stream that has ended. There is nothing to give up. */
const noCaller = new LostCaller(() => undefined);

const maxPendingRequests = 1000;
/** The most characters in all pending ids of a session, because its upstream chooses these ids. */
const maxPendingLetters = 16 * 1024;
/**
 * The longest id from an upstream that is kept. A request with a longer id cannot be answered, and a stream with a
 * longer event id cannot be continued.
 */
const maxIdLength = 1024;

/** The parts of a session that its streams change. */
export interface StreamSession {
  /** Ids, as JSON text, of the upstream's requests that wait for the caller's response. */
  readonly pending: Set<string>;
}

/**
 * A session's stream as its latest reader sends it: the events of one answer. They are numbered and kept, and the
 * requests of the upstream that wait for the caller's response are noted.
 */
export class FollowedStream {
  readonly #stream: ResumableStream;
  readonly #session: StreamSession;
  readonly #isPrimed: boolean;
  readonly #isReader: () => boolean;

  /**
   * Becomes the reader of the stream. With `isPrimed` the stream begins with an event without a message, so that a
   * caller who loses it before the first message can resume.
   */
  constructor(stream: ResumableStream, session: StreamSession, isPrimed: boolean) {
    this.#stream = stream;
    this.#session = session;
    this.#isPrimed = isPrimed;
    this.#isReader = stream.read();
  }

  /** Returns the priming event for callers that support it. */
  begin(): Uint8Array | undefined {
    return this.#isPrimed && this.#isReader() ? this.#stream.prime() : undefined;
  }

  /** The event to send; `undefined` once another connection has resumed the stream. */
  push(message: AnswerMessage): Uint8Array | undefined {
    noteMessage(message, this.#session, this.#stream);
    const { id } = message.event ?? {};
    const event = { raw: message.eventBytes, data: message.bytes, ...(id !== undefined && { id }) };
    return this.pushComment(event);
  }

  /** Like `push`, for an event without a message. */
  pushComment(event: SseEvent): Uint8Array | undefined {
    const bytes = this.#stream.push(event);
    return this.#isReader() ? bytes : undefined;
  }

  end(): void {
    this.#stream.end();
  }
}

function noteMessage(
  message: AnswerMessage,
  { pending }: StreamSession,
  stream: ResumableStream,
): void {
  if (!message.bytes.includes('"method"')) {
    stream.isAnswered = true;
    return;
  }
  const { scan } = message;
  if (scan.outcome === 'refused') return;
  if (scan.envelope.kind === 'response') stream.isAnswered = true;
  else if (scan.envelope.kind === 'request' && pending.size < maxPendingRequests) {
    const { id = '' } = scan.envelope;
    let letters = id.length;
    for (const waiting of pending) letters += waiting.length;
    if (id.length <= maxIdLength && letters <= maxPendingLetters) pending.add(id);
  }
}
