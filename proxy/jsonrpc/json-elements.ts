import { skipSpace, skipValue, type Span } from './json-members.ts';

/**
 * The elements of the JSON array at `span`, which is known to be JSON, without making values of them.
 *
 * @returns `undefined` when something else is there
 */
export function jsonElements(bytes: Buffer, span: Span): Span[] | undefined {
  if (bytes[span.start] !== 0x5b) return undefined;
  const elements: Span[] = [];
  for (let at = skipSpace(bytes, span.start + 1); bytes[at] !== 0x5d;) {
    const end = skipValue(bytes, at, 0);
    elements.push({ start: at, end });
    at = skipSpace(bytes, end);
    if (bytes[at] === 0x2c) at = skipSpace(bytes, at + 1);
  }
  return elements;
}
