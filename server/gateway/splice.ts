import assert from 'node:assert/strict';
import type { Envelope } from './json-scan.ts';
import type { Span } from './strict-json.ts';

/**
 * The message with `members` (name to JSON text) in its `params._meta`, which is made where it is
 * missing. Members that are there already stay as they are, and so does every other byte; a message
 * whose params are an array has no `_meta` and stays whole. Spans of `envelope` are not those of the
 * new body: scan it before editing it again.
 */
export function withMeta(
  body: Buffer,
  envelope: Envelope,
  members: Record<string, string>,
): Buffer {
  assert(envelope.kind !== 'response', 'an answer has no params');
  const { root, params, meta } = envelope;
  const there: object = meta ? JSON.parse(body.toString('utf8', meta.start, meta.end)) : {};
  const added = Object.entries(members)
    .filter(([name]) => !Object.hasOwn(there, name))
    .map(([name, json]) => `${JSON.stringify(name)}:${json}`)
    .join(',');
  if (added === '') return body;
  if (meta) return inserted(body, meta.start + 1, added);
  if (!params) return spliced(body, root.end - 1, root.end - 1, `,"params":{"_meta":{${added}}}`);
  if (body[params.start] !== 0x7b) return body;
  return inserted(body, params.start + 1, `"_meta":{${added}}`);
}

/** The message under another id (JSON text); every other byte stays. */
export function withId(body: Buffer, { idSpan }: Envelope, idJson: string): Buffer {
  assert(idSpan, 'a notification has no id');
  return spliced(body, idSpan.start, idSpan.end, idJson);
}

/** The body with `text` in the place of each span; the spans lie in order or not, and never overlap. */
export function replaced(
  body: Buffer,
  edits: readonly { readonly span: Span; readonly text: string }[],
): Buffer {
  return edits
    .toSorted((one, other) => other.span.start - one.span.start)
    .reduce((whole, { span, text }) => spliced(whole, span.start, span.end, text), body);
}

/** `at` is behind an opening brace. */
function inserted(body: Buffer, at: number, members: string): Buffer {
  let next = at;
  while (' \t\r\n'.includes(String.fromCharCode(body[next] ?? 0))) next++;
  return spliced(body, at, at, body[next] === 0x7d ? members : `${members},`);
}

function spliced(body: Buffer, start: number, end: number, text: string): Buffer {
  return Buffer.concat([body.subarray(0, start), Buffer.from(text), body.subarray(end)]);
}
