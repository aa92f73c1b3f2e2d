import { blankEnd, stringEnd, wordEnd } from './json-token.ts';
import type { Span } from './strict-json.ts';

const [quote, comma, colon, openBrace, closeBrace, openBracket, closeBracket] = [
  0x22, 0x2c, 0x3a, 0x7b, 0x7d, 0x5b, 0x5d,
];

/**
 * Where the values of an object's members are, by decoded name. `span` lies in a text that `strictJson`
 * has passed; a value that is no object has no members.
 */
export function membersIn(body: Buffer, span: Span): Map<string, Span> {
  const members = new Map<string, Span>();
  if (body[span.start] !== openBrace) return members;
  let at = blankEnd(body, span.start + 1);
  while (body[at] === quote) {
    const nameEnd = stringEnd(body, at);
    const name = String(JSON.parse(body.toString('utf8', at, nameEnd)));
    const start = blankEnd(body, blankEnd(body, nameEnd) + 1);
    const end = valueEnd(body, start);
    members.set(name, { start, end });
    at = blankEnd(body, end);
    if (body[at] === comma) at = blankEnd(body, at + 1);
  }
  return members;
}

/** Where the elements of an array are; a value that is no array has none. `span` as in `membersIn`. */
export function elementsIn(body: Buffer, span: Span): Span[] {
  const elements: Span[] = [];
  if (body[span.start] !== openBracket) return elements;
  let start = blankEnd(body, span.start + 1);
  while (body[start] !== closeBracket) {
    const end = valueEnd(body, start);
    elements.push({ start, end });
    start = blankEnd(body, end);
    if (body[start] === comma) start = blankEnd(body, start + 1);
  }
  return elements;
}

/** The string at `span`; `undefined` where something else is. */
export function stringAt(body: Buffer, span: Span | undefined): string | undefined {
  if (!span || body[span.start] !== quote) return undefined;
  return String(JSON.parse(body.toString('utf8', span.start, span.end)));
}

function valueEnd(body: Buffer, start: number): number {
  let depth = 0;
  for (let at = start; ; at = blankEnd(body, at)) {
    const first = body[at];
    if (first === openBrace || first === openBracket) {
      depth++;
      at++;
    } else if (first === closeBrace || first === closeBracket) {
      depth--;
      at++;
    } else if (first === comma || first === colon) at++;
    else at = first === quote ? stringEnd(body, at) : wordEnd(body, at);
    if (depth === 0) return at;
  }
}
