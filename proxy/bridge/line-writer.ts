import type { Writable } from 'node:stream';

/** Writes whole lines, no faster than the reader takes them. */
export interface LineWriter {
  /** Resolves when there is room for the next line, or when nobody reads any more. */
  write(line: Buffer): Promise<void>;

  /** Aborts when the reader has gone. */
  readonly gone: AbortSignal;
}

const lineFeed = Buffer.from('\n');

export function lineWriter(output: Writable): LineWriter {
  const reader = new AbortController();
  output.on('error', () => reader.abort());
  output.on('close', () => reader.abort());
  let room: Promise<void> | undefined;

  return {
    gone: reader.signal,
    async write(line) {
      await room;
      if (reader.signal.aborted) return;
      if (output.write(Buffer.concat([line, lineFeed]))) return;
      room ??= new Promise((resolve) => {
        const done = () => {
          room = undefined;
          output.off('drain', done);
          reader.signal.removeEventListener('abort', done);
          resolve();
        };
        output.on('drain', done);
        reader.signal.addEventListener('abort', done);
      });
      await room;
    },
  };
}
