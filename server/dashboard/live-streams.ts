import type { ServerResponse } from 'node:http';

import type { Clock } from '#clock/clock';
import type { ChangeStore } from './change-store.ts';

const lookEveryMs = 500;
/** A session ends by time as well, which nobody writes down. */
const proveEverySeconds = 30;
const streamsASession = 4;
/** Whoever signs in again and again must not take everybody's. */
const streamsAPerson = 20;
const streamsInAll = 2000;

/** What a stream is about, and who listens. */
export interface LiveTopic {
  readonly sessionId: string;
  readonly userId: string;
  readonly organization: string;
  /** `undefined` for all of the organization. */
  readonly server: string | undefined;
  /** Whether the listener may still know. */
  readonly isAllowed: () => Promise<boolean>;
}

interface Stream extends LiveTopic {
  readonly response: ServerResponse;
  state: string;
}

/** `failed` hears of what goes wrong while it looks, as nobody waits for that. */
export interface LiveStreamsPorts {
  readonly changes: ChangeStore;
  readonly failed: (error: unknown) => void;
  readonly clock: Clock;
}

/**
 * The open pages that want to know when to look again. They are told that something was written, never
 * what: the page is then asked for as always. A stream ends within a second of its session or membership.
 */
export class LiveStreams {
  readonly #streams = new Set<Stream>();
  readonly #ports: LiveStreamsPorts;
  #timer: NodeJS.Timeout | undefined;
  #written = '';
  #provedAt = 0;
  #isLooking = false;
  #isClosed = false;

  constructor(ports: LiveStreamsPorts) {
    this.#ports = ports;
  }

  /**
   * Opens a stream by the response that `take` hands over: only once nothing can fail any more, as nobody else answers from
   * then on. `false`, without having taken it, when there are too many streams already or the server stops.
   */
  async open(topic: LiveTopic, take: () => ServerResponse): Promise<boolean> {
    const { organization, server } = topic;
    const state = await this.#ports.changes.stateOf(organization, server);
    if (this.#isClosed) return false;
    const theirs = [...this.#streams].filter(({ userId }) => userId === topic.userId);
    this.#makeRoom(
      theirs.filter(({ sessionId }) => sessionId === topic.sessionId),
      streamsASession,
    );
    this.#makeRoom(theirs, streamsAPerson);
    if (this.#streams.size >= streamsInAll) return false;
    const response = take();
    const stream: Stream = { ...topic, response, state };
    response.writeHead(200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
      'X-Content-Type-Options': 'nosniff',
    });
    response.write('retry: 2000\n\n');
    response.once('close', () => this.#forget(stream));
    if (response.destroyed) return true;
    this.#streams.add(stream);
    this.#timer ??= setInterval(() => void this.look(), lookEveryMs).unref();
    return true;
  }

  get count(): number {
    return this.#streams.size;
  }

  /** Ends every stream; browsers come back by themselves once a server listens again. */
  close(): void {
    this.#isClosed = true;
    for (const stream of this.#streams) stream.response.end();
    this.#streams.clear();
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Tells whoever has to look again, and ends the streams of those who may not; called by itself. */
  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const written = this.#ports.changes.written();
      const now = this.#ports.clock.now();
      const isDue = now - this.#provedAt > proveEverySeconds;
      if (written === this.#written && !isDue) return;
      this.#written = written;
      this.#provedAt = now;
      const states = new Map<string, Promise<string>>();
      for (const stream of this.#streams) await this.#tell(stream, states);
    } catch (error) {
      this.#ports.failed(error);
    } finally {
      this.#isLooking = false;
    }
  }

  async #tell(stream: Stream, states: Map<string, Promise<string>>): Promise<void> {
    if (!(await stream.isAllowed())) return this.#end(stream, 'over');
    const { organization, server } = stream;
    const topic = `${organization}/${server ?? ''}`;
    const asked = states.get(topic) ?? this.#ports.changes.stateOf(organization, server);
    states.set(topic, asked);
    const state = await asked;
    // A line that says nothing finds out who went away without a word.
    stream.response.write(state === stream.state ? ':\n\n' : 'event: written\ndata:\n\n');
    stream.state = state;
  }

  /** Ends the oldest of these, those that have not ended yet, so that one more makes `most`. */
  #makeRoom(streams: readonly Stream[], most: number): void {
    const open = streams.filter((stream) => this.#streams.has(stream));
    for (const stream of open.slice(0, Math.max(0, open.length - most + 1))) {
      this.#end(stream, 'full');
    }
  }

  #end(stream: Stream, why: 'over' | 'full'): void {
    stream.response.end(`event: ${why}\ndata:\n\n`);
    this.#forget(stream);
  }

  #forget(stream: Stream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
