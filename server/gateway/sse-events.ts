import { sseEvent } from './sse-event.ts';
import type { SseEvent } from './sse-event.ts';

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** The stream holds an event of more than `maxBytes`. */
export class SseEventTooLarge extends Error {
  override readonly name = 'SseEventTooLarge';
  readonly maxBytes: number;

  constructor(maxBytes: number) {
    super(`an event of the stream is larger than ${maxBytes} bytes`);
    this.maxBytes = maxBytes;
  }
}

/**
 * Splits `text/event-stream` bytes into whole events, however they are cut into chunks, each as soon
 * as its blank line is there. Every byte up to the last event is in the `raw` of one event. What
 * follows the last blank line when the stream ends is no event.
 *
 * HTML Living Standard §9.2.5
 */
export class SseEvents {
  readonly #maxBytes: number;
  readonly #passLarge: boolean;
  /** The event under way is larger than allowed, and handed out in pieces. */
  #passing = false;
  /** The event under way, as far as it came with earlier chunks. */
  #held = Buffer.alloc(0);
  #heldBytes = 0;
  #inLine = false;
  #hasLine = false;
  /** The last byte was a carriage return, so that a line feed belongs to it. */
  #afterReturn = false;

  constructor({ maxBytes, passLarge = false }: { maxBytes: number; passLarge?: boolean }) {
    this.#maxBytes = maxBytes;
    this.#passLarge = passLarge;
  }

  /**
   * The events that end in this chunk. One that lies in it whole is a view of it: copy it to keep it.
   * With `passLarge` one that is too large comes in pieces that have bytes and no data.
   *
   * @throws {SseEventTooLarge} after which the rest of the stream cannot be split.
   */
  *push(chunk: Uint8Array): Generator<SseEvent, void, undefined> {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let start = 0;
    let at = this.#afterReturn && bytes[0] === lineFeed ? 1 : 0;
    if (bytes.length > 0) this.#afterReturn = false;
    let feed = bytes.indexOf(lineFeed, at);
    let back = bytes.indexOf(carriageReturn, at);
    for (;;) {
      if (feed >= 0 && feed < at) feed = bytes.indexOf(lineFeed, at);
      if (back >= 0 && back < at) back = bytes.indexOf(carriageReturn, at);
      const end = feed < 0 || (back >= 0 && back < feed) ? back : feed;
      if (end < 0) break;
      const blank = end === at && !this.#inLine;
      at = end + 1;
      this.#inLine = false;
      if (end === back) {
        if (bytes[at] === lineFeed) at++;
        else this.#afterReturn = at === bytes.length;
      }
      // Blank lines before the first line of an event belong to it: they end nothing.
      if (!blank) this.#hasLine = true;
      else if (this.#hasLine) {
        this.#hasLine = false;
        const tail = bytes.subarray(start, at);
        start = at;
        if (this.#isTooLarge(tail)) yield this.#piece(tail);
        else yield sseEvent(this.#take(tail));
        this.#passing = false;
      }
    }
    if (at < bytes.length) this.#inLine = true;
    const rest = bytes.subarray(start);
    if (rest.length > 0 && this.#isTooLarge(rest)) yield this.#piece(rest);
    else this.#hold(rest);
  }

  #isTooLarge(tail: Buffer): boolean {
    if (!this.#passLarge) return false;
    return this.#passing || this.#heldBytes + tail.length > this.#maxBytes;
  }

  #piece(tail: Buffer): SseEvent {
    this.#passing = true;
    const held = this.#held.subarray(0, this.#heldBytes);
    this.#held = Buffer.alloc(0);
    this.#heldBytes = 0;
    return { raw: held.length > 0 ? Buffer.concat([held, tail]) : tail, data: Buffer.alloc(0) };
  }

  #take(tail: Buffer): Buffer {
    if (this.#heldBytes === 0) {
      if (tail.length > this.#maxBytes) throw new SseEventTooLarge(this.#maxBytes);
      return tail;
    }
    this.#hold(tail);
    const raw = this.#held.subarray(0, this.#heldBytes);
    this.#held = Buffer.alloc(0);
    this.#heldBytes = 0;
    return raw;
  }

  #hold(tail: Buffer): void {
    const bytes = this.#heldBytes + tail.length;
    if (bytes > this.#maxBytes) throw new SseEventTooLarge(this.#maxBytes);
    if (bytes > this.#held.length) {
      const wider = Buffer.allocUnsafe(Math.max(bytes, Math.min(2 * bytes, this.#maxBytes)));
      this.#held.copy(wider, 0, 0, this.#heldBytes);
      this.#held = wider;
    }
    tail.copy(this.#held, this.#heldBytes);
    this.#heldBytes = bytes;
  }
}
