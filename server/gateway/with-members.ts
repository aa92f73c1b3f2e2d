import { blankEnd } from './json-token.ts';
import { membersIn } from './json-parts.ts';
import type { Span } from './strict-json.ts';

/** A change to a message, for `replaced`. */
export interface Edit {
  readonly span: Span;
  readonly text: string;
}

/**
 * The changes that give the object at `span` members with these values (JSON text), in the place of those of the same
 * names; none where something else than an object is.
 */
export function withMembers(
  body: Buffer,
  span: Span | undefined,
  values: Readonly<Record<string, string>>,
): Edit[] {
  if (!span || body[span.start] !== 0x7b) return [];
  const there = membersIn(body, span);
  const edits: Edit[] = [];
  const added: string[] = [];
  for (const [name, json] of Object.entries(values)) {
    const known = there.get(name);
    if (known) edits.push({ span: known, text: json });
    else added.push(`${JSON.stringify(name)}:${json}`);
  }
  if (added.length === 0) return edits;
  const at = span.start + 1;
  const isEmpty = body[blankEnd(body, at)] === 0x7d;
  const text = `${added.join(',')}${isEmpty ? '' : ','}`;
  return [...edits, { span: { start: at, end: at }, text }];
}
