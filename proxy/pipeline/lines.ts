import type { Writable } from 'node:stream';

/** A line over the limit: its beginning and end, to find the id of the request. */
export type LongLine = { head: Buffer; tail: Buffer };

const edgeBytes = 4_096;

/** Splits chunks of bytes into lines, without line endings. Blank lines are dropped. */
export function lineCutter(maxBytes: number) {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let head: Buffer | undefined;

  function hold(part: Buffer): void {
    held.push(part);
    heldBytes += part.length;
    if (heldBytes <= maxBytes && !head) return;
    const all = Buffer.concat(held);
    head ??= Buffer.from(all.subarray(0, edgeBytes));
    const tail = Buffer.from(all.subarray(-edgeBytes));
    held = [tail];
    heldBytes = tail.length;
  }

  function rest(): Buffer | LongLine | undefined {
    const all = held.length === 1 ? held[0] : Buffer.concat(held);
    const line = head ? { head, tail: all ?? head } : withoutReturn(all ?? Buffer.alloc(0));
    held = [];
    heldBytes = 0;
    head = undefined;
    return Buffer.isBuffer(line) && line.length === 0 ? undefined : line;
  }

  return {
    /** The lines that end in `chunk`. */
    take(chunk: Buffer): (Buffer | LongLine)[] {
      const lines: (Buffer | LongLine)[] = [];
      let start = 0;
      for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, start)) {
        hold(chunk.subarray(start, at));
        start = at + 1;
        const line = rest();
        if (line) lines.push(line);
      }
      if (start < chunk.length) hold(chunk.subarray(start));
      return lines;
    },
    /** The last line, after the last chunk; `undefined` if it is empty. */
    rest,
  };
}

function withoutReturn(line: Buffer): Buffer {
  const text = line.at(-1) === 0x0d ? line.subarray(0, -1) : line;
  const blank = text.every((byte) => byte === 0x20 || byte === 0x09);
  return blank ? Buffer.alloc(0) : text;
}

/** Reads the lines of `input` as bytes, without line endings. Blank lines are dropped. */
export async function* readLines(
  input: AsyncIterable<Buffer>,
  maxBytes: number,
): AsyncGenerator<Buffer | LongLine> {
  const lines = lineCutter(maxBytes);
  for await (const chunk of input) yield* lines.take(chunk);
  const last = lines.rest();
  if (last) yield last;
}

const id = String.raw`("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?)`;
const requestHead = new RegExp(
  String.raw`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*${id}\s*,\s*)?"method"\s*:`,
);
const requestTail = new RegExp(
  String.raw`,\s*"id"\s*:\s*${id}\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`,
);

/**
 * The id (as JSON text) of a request that is too long to be read. Clients write it near the start or at the very end. Returns
 * `undefined` for a line that does not begin like a request, because an error with a wrong id would answer another request.
 */
export function identify({ head, tail }: LongLine): string | undefined {
  const front = requestHead.exec(head.toString('latin1'));
  return front ? (front[1] ?? requestTail.exec(tail.toString('latin1'))?.[1]) : undefined;
}

const resolved = Promise.resolve();

const lineFeed = Buffer.from('\n');

/** Above this size, joining lines costs more than writing each of them. */
const batchBytes = 64 * 1024;

/**
 * Writes whole lines, no faster than they are read. Lines of one turn of the event loop are written together, because each write is a
 * system call, which would be the largest cost of many simultaneous answers.
 */
export function lineWriter(output: Writable) {
  const reader = new AbortController();
  output.on('error', () => reader.abort());
  output.on('close', () => reader.abort());
  let held: Buffer[] = [];
  let heldBytes = 0;
  let turn: NodeJS.Immediate | undefined;
  let drained: Promise<void> | undefined;

  function flush(): void {
    clearImmediate(turn);
    turn = undefined;
    if (held.length > 0 && !reader.signal.aborted && !writeHeld()) drained ??= drain();
    held = [];
    heldBytes = 0;
  }

  /** Returns `false` if the output's buffer is full. */
  function writeHeld(): boolean {
    if (heldBytes < batchBytes) return output.write(Buffer.concat(held, heldBytes));
    output.cork();
    const hasRoom = held.map((part) => output.write(part));
    output.uncork();
    return hasRoom.at(-1) ?? true;
  }

  function take(line: Buffer): Promise<void> | undefined {
    if (reader.signal.aborted) return undefined;
    held.push(line, lineFeed);
    heldBytes += line.length + lineFeed.length;
    if (heldBytes >= batchBytes) flush();
    else turn ??= setImmediate(flush);
    return drained;
  }

  async function takeWhenDrained(line: Buffer): Promise<void> {
    for (let full = drained; full; full = drained) await full;
    await take(line);
  }

  function drain(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        drained = undefined;
        output.off('drain', done);
        reader.signal.removeEventListener('abort', done);
        resolve();
      };
      output.on('drain', done);
      reader.signal.addEventListener('abort', done);
    });
  }

  return {
    /** Aborts when the reader has disconnected. */
    gone: reader.signal,
    /** Writes the lines that `write` has collected. */
    flush,
    /** Resolves when another line can be written, or when the reader has disconnected. */
    write: (line: Buffer) => (drained ? takeWhenDrained(line) : (take(line) ?? resolved)),
  };
}
