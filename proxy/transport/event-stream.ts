/** One event: `data` may be empty in an event that only sets the id. */
export type ServerSentEvent = { type: string; id?: string; data: Buffer; retryMs?: number };

/** An event is longer than the reader allows. */
export class EventTooLargeError extends Error {
  override readonly name = 'EventTooLargeError';
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/**
 * The events of a `text/event-stream` body, as bytes. Lines end in LF, CRLF or CR; an event that is
 * not ended by an empty line is dropped.
 *
 * HTML Living Standard §9.2.6
 */
export async function* eventStream(
  body: AsyncIterable<Buffer>,
  maxBytes: number,
): AsyncGenerator<ServerSentEvent> {
  let event = emptyEvent();
  for await (const line of lines(body, maxBytes)) {
    if (line.length > 0) {
      event.bytes += line.length;
      if (event.bytes > maxBytes) throw new EventTooLargeError();
      takeField(event, line);
    } else {
      if (event.seen) yield finished(event);
      event = emptyEvent();
    }
  }
}

type Draft = {
  seen: boolean;
  bytes: number;
  type: string;
  id: string | undefined;
  retryMs: number | undefined;
  data: Buffer[];
};

function emptyEvent(): Draft {
  return { seen: false, bytes: 0, type: 'message', id: undefined, retryMs: undefined, data: [] };
}

function finished({ type, id, retryMs, data }: Draft): ServerSentEvent {
  const joined = data.length === 1 ? data[0] : Buffer.from(data.map(String).join('\n'));
  return {
    type,
    data: joined ?? Buffer.alloc(0),
    ...(id !== undefined && { id }),
    ...(retryMs !== undefined && { retryMs }),
  };
}

function takeField(event: Draft, line: Buffer): void {
  const colon = line.indexOf(':');
  if (colon === 0) return;
  const name = line.toString('latin1', 0, colon < 0 ? line.length : colon);
  const from = colon < 0 ? line.length : line[colon + 1] === 0x20 ? colon + 2 : colon + 1;
  const value = line.subarray(from);
  event.seen = true;
  if (name === 'data') event.data.push(value);
  else if (name === 'event') event.type = value.toString() || 'message';
  else if (name === 'id' && value.every(isPrintable)) event.id = value.toString();
  else if (name === 'retry' && /^\d{1,9}$/.test(value.toString())) event.retryMs = Number(value);
}

/** An id with control characters could not be sent back in a header. */
function isPrintable(byte: number): boolean {
  return byte >= 0x20 && byte !== 0x7f;
}

async function* lines(body: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let afterReturn = false;
  let first = true;
  for await (const chunk of body) {
    let start = 0;
    for (let at = nextEnd(chunk, 0); at >= 0; at = nextEnd(chunk, start)) {
      const half = afterReturn && at === 0 && chunk[0] === lineFeed;
      const line =
        heldBytes > 0
          ? Buffer.concat([...held, chunk.subarray(start, at)])
          : chunk.subarray(start, at);
      const crlf = chunk[at] === carriageReturn && chunk[at + 1] === lineFeed;
      start = at + (crlf ? 2 : 1);
      afterReturn = chunk[at] === carriageReturn && start === chunk.length && !crlf;
      if (half) continue;
      held = [];
      heldBytes = 0;
      yield first ? withoutMark(line) : line;
      first = false;
    }
    if (start < chunk.length) {
      held.push(chunk.subarray(start));
      heldBytes += chunk.length - start;
      afterReturn = false;
      if (heldBytes > maxBytes) throw new EventTooLargeError();
    }
  }
}

function nextEnd(chunk: Buffer, from: number): number {
  const feed = chunk.indexOf(lineFeed, from);
  const back = chunk.subarray(from, feed < 0 ? chunk.length : feed).indexOf(carriageReturn);
  return back < 0 ? feed : from + back;
}

function withoutMark(line: Buffer): Buffer {
  return line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf ? line.subarray(3) : line;
}
