/** A line longer than allowed: what it began and ended with, enough to find whose it was. */
export type LongLine = { head: Buffer; tail: Buffer };

const keptBytes = 4_096;

/** The lines of `input` as bytes, without their ends; blank ones are passed over. */
export async function* readLines(
  input: AsyncIterable<Buffer>,
  maxBytes: number,
): AsyncGenerator<Buffer | LongLine> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let head: Buffer | undefined;

  const hold = (part: Buffer) => {
    held.push(part);
    heldBytes += part.length;
    if (heldBytes <= maxBytes && !head) return;
    const all = Buffer.concat(held);
    head ??= Buffer.from(all.subarray(0, keptBytes));
    const tail = Buffer.from(all.subarray(-keptBytes));
    held = [tail];
    heldBytes = tail.length;
  };
  const take = (): Buffer | LongLine | undefined => {
    const all = held.length === 1 ? held[0] : Buffer.concat(held);
    const line = head ? { head, tail: all ?? head } : withoutReturn(all ?? Buffer.alloc(0));
    held = [];
    heldBytes = 0;
    head = undefined;
    return Buffer.isBuffer(line) && line.length === 0 ? undefined : line;
  };

  for await (const chunk of input) {
    let start = 0;
    for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, start)) {
      hold(chunk.subarray(start, at));
      start = at + 1;
      const line = take();
      if (line) yield line;
    }
    if (start < chunk.length) hold(chunk.subarray(start));
  }
  const last = take();
  if (last) yield last;
}

function withoutReturn(line: Buffer): Buffer {
  const text = line.at(-1) === 0x0d ? line.subarray(0, -1) : line;
  return text.every((byte) => byte === 0x20 || byte === 0x09) ? Buffer.alloc(0) : text;
}
