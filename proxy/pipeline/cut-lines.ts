/** A line longer than allowed: what it began and ended with, enough to find whose it was. */
export type LongLine = { head: Buffer; tail: Buffer };

/** Cuts bytes that come in pieces into lines, without their ends; blank ones are passed over. */
export interface LineCutter {
  /** The lines that end in `chunk`. */
  take(chunk: Buffer): (Buffer | LongLine)[];

  /** What is left when no more comes; `undefined` when that is nothing. */
  rest(): Buffer | LongLine | undefined;
}

const keptBytes = 4_096;

export function lineCutter(maxBytes: number): LineCutter {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let head: Buffer | undefined;

  function hold(part: Buffer): void {
    held.push(part);
    heldBytes += part.length;
    if (heldBytes <= maxBytes && !head) return;
    const all = Buffer.concat(held);
    head ??= Buffer.from(all.subarray(0, keptBytes));
    const tail = Buffer.from(all.subarray(-keptBytes));
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
    take(chunk) {
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
    rest,
  };
}

function withoutReturn(line: Buffer): Buffer {
  const text = line.at(-1) === 0x0d ? line.subarray(0, -1) : line;
  const blank = text.every((byte) => byte === 0x20 || byte === 0x09);
  return blank ? Buffer.alloc(0) : text;
}
