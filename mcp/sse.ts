/** One event of an event stream. */
export interface SseEvent {
  /** All bytes of the event: its comments, the blank line that ends it and those before it. */
  raw: Uint8Array;
  /** The data lines joined by line feeds; empty if there are none, as in a keep-alive comment. */
  data: Uint8Array;
  id?: string;
  event?: string;
}

const byteOrderMark = Buffer.from('\ufeff');
const join = Buffer.from('\n');

/**
 * Parses the fields of an event. `data` of a single line is a view of its bytes.
 *
 * HTML Living Standard §9.2.6
 */
export function sseEvent(raw: Buffer): SseEvent {
  const data: Buffer[] = [];
  const fields: { id?: string; event?: string } = {};
  let at = byteOrderMark.equals(raw.subarray(0, 3)) ? byteOrderMark.length : 0;
  while (at < raw.length) {
    const end = lineEnd(raw, at);
    const line = raw.subarray(at, end);
    at = end + 1;
    const colon = line.indexOf(0x3a);
    const nameEnd = colon < 0 ? line.length : colon;
    const name = line.toString('latin1', 0, Math.min(nameEnd, 6));
    const value = line.subarray(line[nameEnd + 1] === 0x20 ? nameEnd + 2 : nameEnd + 1);
    if (name === 'data') data.push(value);
    else if (name === 'event') fields.event = value.toString();
    else if (name === 'id' && !value.includes(0)) fields.id = value.toString();
  }
  const [first = Buffer.alloc(0), ...more] = data;
  return {
    raw,
    data: more.length > 0 ? Buffer.concat([first, ...more.flatMap((line) => [join, line])]) : first,
    ...fields,
  };
}

/**
 * Wraps a message in an event: on one line, since line breaks outside JSON strings have no meaning; or with the id,
 * name and line structure of the event that it came in.
 */
export function messageEvent(message: Buffer, of?: Pick<SseEvent, 'id' | 'event'>): Buffer {
  const text = message.toString('utf8');
  if (!of) return Buffer.from(`event: message\ndata: ${text.replaceAll(/[\r\n]+/g, ' ')}\n\n`);
  const id = of.id === undefined ? '' : `id: ${of.id}\n`;
  const event = of.event === undefined ? '' : `event: ${of.event}\n`;
  return Buffer.from(`${id}${event}data: ${text.replaceAll('\n', '\ndata: ')}\n\n`);
}

function lineEnd(raw: Buffer, at: number): number {
  let end = at;
  while (end < raw.length && raw[end] !== 0x0a && raw[end] !== 0x0d) end++;
  return end;
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** An event of the stream exceeds `maxBytes`. */
export class SseEventTooLarge extends Error {
  override readonly name = 'SseEventTooLarge';
  readonly maxBytes: number;

  constructor(maxBytes: number) {
    super(`an event of the stream is larger than ${maxBytes} bytes`);
    this.maxBytes = maxBytes;
  }
}

/**
 * Splits `text/event-stream` bytes into events, independent of chunk boundaries, each as soon as its blank line
 * arrives. Every byte up to the last event is in the `raw` of one event. Bytes after the last blank line of the
 * stream are not an event.
 *
 * HTML Living Standard §9.2.5
 */
export class SseEvents {
  readonly #maxBytes: number;
  readonly #passLarge: boolean;
  /** The current event exceeds the limit and is passed on in pieces. */
  #passing = false;
  /** The part of the current event that arrived in earlier chunks. */
  #held = Buffer.alloc(0);
  #heldBytes = 0;
  #inLine = false;
  #hasLine = false;
  /** The last byte was a carriage return, so a following line feed belongs to it. */
  #afterReturn = false;

  constructor({ maxBytes, passLarge = false }: { maxBytes: number; passLarge?: boolean }) {
    this.#maxBytes = maxBytes;
    this.#passLarge = passLarge;
  }

  /**
   * The events that end in this chunk. An event contained in the chunk is a view of it: copy it to keep it. With
   * `passLarge`, an event over the limit comes in pieces with bytes but no data.
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
      // Blank lines before the first line of an event belong to that event.
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

/**
 * An event's bytes with its id, if any, replaced. A byte order mark and blank lines at the start are removed, since
 * after an id they would end an event.
 *
 * HTML Living Standard §9.2.6
 */
export function withEventId({ raw, id }: SseEvent, newId: string): Buffer {
  let bytes = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength);
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) bytes = bytes.subarray(3);
  let start = 0;
  while (bytes[start] === 0x0a || bytes[start] === 0x0d) start++;
  bytes = bytes.subarray(start);
  if (id !== undefined) {
    const text = bytes.toString('latin1').replaceAll(/^id(?::[^\r\n]*)?(?:\r\n|\r|\n)/gm, '');
    bytes = Buffer.from(text, 'latin1');
  }
  return Buffer.concat([Buffer.from(`id: ${newId}\n`), bytes]);
}

const longestGap = 4;

/** Whether a stream is between two events, the only place where an event can be inserted. */
export class EventGap {
  #tail = Buffer.from('\n\n');

  push(chunk: Uint8Array): void {
    this.#tail = Buffer.concat([this.#tail, chunk.subarray(-longestGap)]).subarray(-longestGap);
  }

  get isOpen(): boolean {
    return /(?:\n\n|\r\n\r\n)$/.test(this.#tail.toString('latin1'));
  }
}
