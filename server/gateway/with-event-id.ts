import type { SseEvent } from './sse-event.ts';

/**
 * An event's bytes under an id of ours in the place of its own, if it has one. Byte order mark and
 * blank lines before it go, as behind an id they would end an event.
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
