export interface SseEvent {
  /** All bytes of the event, including comments, any blank lines before it and the blank line that ends it. */
  raw: Buffer;
  /** The data lines joined by line feeds; empty if there are none, as in a keep-alive comment. */
  data: Buffer;
  id?: string;
  event?: string;
  /** How long to wait before the stream is requested again. */
  retryMs?: number;
  /** Set if the event has no fields. */
  isComment?: true;
}

export interface SseOptions {
  /** The longest event, counting all its bytes. */
  readonly maxBytes: number;
  /** Whether ids with control characters are ignored, because a header cannot contain them. */
  readonly printableIds?: boolean;
}

/** The maximum number of lines in an event: every line takes time to process, however short it is. */
const maxLines = 10_000;

/** An event of the stream exceeds a limit. */
export class SseEventTooLarge extends Error {
  override readonly name = 'SseEventTooLarge';
  /** The limit that was exceeded, with its unit. */
  readonly limit: string;

  constructor(limit: string) {
    super(`an event of the stream is larger than ${limit}`);
    this.limit = limit;
  }
}

/**
 * The events of a body as they arrive.
 *
 * @throws {SseEventTooLarge}
 */
export async function* sseEvents(
  body: Uint8Array | AsyncIterable<Uint8Array>,
  options: SseOptions,
): AsyncGenerator<SseEvent, void, undefined> {
  const events = new SseEvents(options);
  if (body instanceof Uint8Array) return yield* events.push(body);
  for await (const chunk of body) yield* events.push(chunk);
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
const byteOrderMark = Buffer.from('\ufeff');

/**
 * Splits `text/event-stream` bytes into events, independent of chunk boundaries, each as soon as its blank line
 * arrives. Every byte up to the last event is in the `raw` of one event, except a byte order mark at the start. Bytes
 * after the last blank line of the stream are not an event.
 *
 * HTML Living Standard §9.2.5
 */
export class SseEvents {
  readonly #options: SseOptions;
  /** The first bytes of the stream while they may be the beginning of a byte order mark. */
  #start: Buffer | undefined = Buffer.alloc(0);
  /** The part of the current event that arrived in earlier chunks. */
  #held = Buffer.alloc(0);
  #heldBytes = 0;
  /** How many lines of the current event have ended, blank ones included. */
  #lines = 0;
  #inLine = false;
  #hasLine = false;
  /** The last byte was a carriage return, so a following line feed belongs to it. */
  #afterReturn = false;

  constructor(options: SseOptions) {
    this.#options = options;
  }

  /**
   * The events that end in this chunk. The bytes of an event that lies within the chunk are a view of it:
   * copy them to keep them.
   *
   * @throws {SseEventTooLarge} after which the rest of the stream cannot be split.
   */
  *push(chunk: Uint8Array): Generator<SseEvent, void, undefined> {
    const bytes = this.#withoutMark(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
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
      this.#lines += 1;
      if (this.#lines > maxLines) throw new SseEventTooLarge(`${maxLines} lines`);
      if (end === back) {
        if (bytes[at] === lineFeed) at++;
        else this.#afterReturn = at === bytes.length;
      }
      // Blank lines before the first line of an event belong to that event.
      if (!blank) this.#hasLine = true;
      else if (this.#hasLine) {
        this.#hasLine = false;
        this.#lines = 0;
        const tail = bytes.subarray(start, at);
        start = at;
        yield parsedEvent(this.#take(tail), this.#options);
      }
    }
    if (at < bytes.length) this.#inLine = true;
    this.#hold(bytes.subarray(start));
  }

  #withoutMark(bytes: Buffer): Buffer {
    if (!this.#start) return bytes;
    const start = this.#start.length > 0 ? Buffer.concat([this.#start, bytes]) : bytes;
    if (
      start.length < byteOrderMark.length &&
      start.equals(byteOrderMark.subarray(0, start.length))
    )
      return (this.#start = Buffer.from(start)).subarray(start.length);
    this.#start = undefined;
    return byteOrderMark.equals(start.subarray(0, byteOrderMark.length))
      ? start.subarray(byteOrderMark.length)
      : start;
  }

  #take(tail: Buffer): Buffer {
    const { maxBytes } = this.#options;
    if (this.#heldBytes === 0) {
      if (tail.length > maxBytes) throw new SseEventTooLarge(`${maxBytes} bytes`);
      return tail;
    }
    this.#hold(tail);
    const raw = this.#held.subarray(0, this.#heldBytes);
    this.#held = Buffer.alloc(0);
    this.#heldBytes = 0;
    return raw;
  }

  #hold(tail: Buffer): void {
    const { maxBytes } = this.#options;
    const bytes = this.#heldBytes + tail.length;
    if (bytes > maxBytes) throw new SseEventTooLarge(`${maxBytes} bytes`);
    if (bytes > this.#held.length) {
      const wider = Buffer.allocUnsafe(Math.max(bytes, Math.min(2 * bytes, maxBytes)));
      this.#held.copy(wider, 0, 0, this.#heldBytes);
      this.#held = wider;
    }
    tail.copy(this.#held, this.#heldBytes);
    this.#heldBytes = bytes;
  }
}

const newLine = Buffer.from('\n');

/**
 * Parses the fields of an event. If the event has a single data line, `data` is a view of `raw`.
 *
 * HTML Living Standard §9.2.6
 */
function parsedEvent(raw: Buffer, { printableIds }: SseOptions): SseEvent {
  const data: Buffer[] = [];
  const fields: Omit<SseEvent, 'raw' | 'data'> = { isComment: true };
  for (let at = 0, end = 0; at < raw.length; at = end + 1) {
    end = lineEnd(raw, at);
    const line = raw.subarray(at, end);
    const colon = line.indexOf(0x3a);
    const nameEnd = colon < 0 ? line.length : colon;
    if (nameEnd === 0) continue;
    delete fields.isComment;
    const name = line.toString('latin1', 0, Math.min(nameEnd, 6));
    const value = line.subarray(line[nameEnd + 1] === 0x20 ? nameEnd + 2 : nameEnd + 1);
    if (name === 'data') data.push(value);
    else if (name === 'event') fields.event = value.toString();
    else if (name === 'retry' && /^\d{1,9}$/.test(value.toString('latin1'))) {
      fields.retryMs = Number(value);
    } else if (name === 'id' && (printableIds ? value.every(isPrintable) : !value.includes(0))) {
      fields.id = value.toString();
    }
  }
  const [first = Buffer.alloc(0), ...more] = data;
  return {
    raw,
    data:
      more.length > 0 ? Buffer.concat([first, ...more.flatMap((line) => [newLine, line])]) : first,
    ...fields,
  };
}

function lineEnd(raw: Buffer, at: number): number {
  let end = at;
  while (end < raw.length && raw[end] !== lineFeed && raw[end] !== carriageReturn) end++;
  return end;
}

function isPrintable(byte: number): boolean {
  return byte >= 0x20 && byte !== 0x7f;
}

const messageStart = Buffer.from('event: message\ndata: ');
const eventEnd = Buffer.from('\n\n');

/**
 * Wraps a message in an event. If the message came in the event `of`, that event's id, name, retry time and line breaks
 * are kept. Otherwise the message is put on one line, because line breaks outside JSON strings have no meaning.
 */
export function messageEvent(
  message: Buffer,
  of?: Pick<SseEvent, 'id' | 'event' | 'retryMs'>,
): Buffer {
  if (!of) {
    return Buffer.concat([messageStart, withLineBreaks(message, /[\r\n]+/g, ' '), eventEnd]);
  }
  const fields = { id: of.id, event: of.event, retry: of.retryMs };
  const lines = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${value}\n`],
  );
  const data = withLineBreaks(message, /\r\n|\r|\n/g, '\ndata: ');
  return Buffer.concat([Buffer.from(`${lines.join('')}data: `), data, eventEnd]);
}

/** The message with its line breaks replaced; every other byte stays. */
function withLineBreaks(message: Buffer, lineBreak: RegExp, replacement: string): Buffer {
  if (!message.includes(lineFeed) && !message.includes(carriageReturn)) return message;
  return Buffer.from(message.toString('latin1').replaceAll(lineBreak, replacement), 'latin1');
}

const idLines = /^(?:id(?::[^\r\n]*)?(?:\r\n|\r|\n))+/gm;

/**
 * An event's bytes with `newId` instead of its own id, if it has one. Blank lines at the start are removed, because after
 * the new id they would end the event.
 *
 * HTML Living Standard §9.2.6
 */
export function withEventId({ raw, id }: Pick<SseEvent, 'raw' | 'id'>, newId: string): Buffer {
  let start = 0;
  while (raw[start] === lineFeed || raw[start] === carriageReturn) start++;
  let bytes = raw.subarray(start);
  // An id that contains a null character is ignored, but must be removed, too.
  if (id !== undefined || bytes.includes(0)) {
    const text = bytes.toString('latin1');
    const without = text.replaceAll(idLines, (lines, at: number) =>
      // Without a comment between them, the CR before the removed line and the LF after it would become one line end.
      text[at - 1] === '\r' && text[at + lines.length] === '\n' ? ':\n' : '',
    );
    bytes = Buffer.from(without, 'latin1');
  }
  return Buffer.concat([Buffer.from(`id: ${newId}\n`), bytes]);
}
