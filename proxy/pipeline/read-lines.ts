import { lineCutter, type LongLine } from './cut-lines.ts';

/** The lines of `input` as bytes, without their ends; blank ones are passed over. */
export async function* readLines(
  input: AsyncIterable<Buffer>,
  maxBytes: number,
): AsyncGenerator<Buffer | LongLine> {
  const lines = lineCutter(maxBytes);
  for await (const chunk of input) yield* lines.take(chunk);
  const last = lines.rest();
  if (last) yield last;
}
