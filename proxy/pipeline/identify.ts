import type { LongLine } from './cut-lines.ts';

const id = String.raw`("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?)`;
const requestHead = new RegExp(
  String.raw`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*${id}\s*,\s*)?"method"\s*:`,
);
const requestTail = new RegExp(
  String.raw`,\s*"id"\s*:\s*${id}\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`,
);

/**
 * The id (as JSON text) of a request that is too long to be read, guessed from how clients write
 * them: the id near the front or at the very end. A wrong guess would answer another request, so
 * what does not begin like a request has none.
 */
export function identify({ head, tail }: LongLine): string | undefined {
  const front = requestHead.exec(head.toString('latin1'));
  return front ? (front[1] ?? requestTail.exec(tail.toString('latin1'))?.[1]) : undefined;
}
