import type { Writable } from 'node:stream';

/** Writes whole lines, no faster than the reader takes them. */
export interface LineWriter {
  /** Resolves when there is room for the next line, or when nobody reads any more. */
  write(line: Buffer): Promise<void>;

  /** Hands over what `write` still holds back. */
  flush(): void;

  /** Aborts when the reader has gone. */
  readonly gone: AbortSignal;
}

const atOnce = Promise.resolve();

const lineFeed = Buffer.from('\n');

/** Above this, copying lines together costs more than handing them over one by one. */
const batchBytes = 64 * 1024;

/**
 * Lines that come in one turn of the event loop go out together, as every hand-over is a system call: with
 * many answers at once that is what costs most.
 */
export function lineWriter(output: Writable): LineWriter {
  const reader = new AbortController();
  output.on('error', () => reader.abort());
  output.on('close', () => reader.abort());
  let held: Buffer[] = [];
  let heldBytes = 0;
  let turn: NodeJS.Immediate | undefined;
  let room: Promise<void> | undefined;

  function flush(): void {
    clearImmediate(turn);
    turn = undefined;
    if (held.length > 0 && !reader.signal.aborted && !handOver()) room ??= waitForRoom();
    held = [];
    heldBytes = 0;
  }

  /** `false` when the reader is behind. */
  function handOver(): boolean {
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
    return room;
  }

  async function whenThereIsRoom(line: Buffer): Promise<void> {
    for (let behind = room; behind; behind = room) await behind;
    await take(line);
  }

  function waitForRoom(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        room = undefined;
        output.off('drain', done);
        reader.signal.removeEventListener('abort', done);
        resolve();
      };
      output.on('drain', done);
      reader.signal.addEventListener('abort', done);
    });
  }

  return {
    gone: reader.signal,
    flush,
    write: (line) => (room ? whenThereIsRoom(line) : (take(line) ?? atOnce)),
  };
}
