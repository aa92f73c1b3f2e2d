/** One event of an event stream. */
export interface SseEvent {
  /** The event's own bytes with its comments, the blank line that ends it and those before it. */
  raw: Uint8Array;
  /** The data lines joined by line feeds; empty where there is none, as in a keep-alive comment. */
  data: Uint8Array;
  id?: string;
  event?: string;
}

const byteOrderMark = Buffer.from('\ufeff');
const join = Buffer.from('\n');

/**
 * Reads the fields of an event's bytes. `data` of one line is a view of them.
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

/** A message as an event of its own, on one line: outside strings, JSON means the same without its line breaks. */
export function messageEvent(message: Buffer): Buffer {
  const line = message.toString('utf8').replaceAll(/[\r\n]+/g, ' ');
  return Buffer.from(`event: message\ndata: ${line}\n\n`);
}

function lineEnd(raw: Buffer, at: number): number {
  let end = at;
  while (end < raw.length && raw[end] !== 0x0a && raw[end] !== 0x0d) end++;
  return end;
}
