import { membersIn } from '#gateway/json-parts';
import { scanMessage, type Envelope } from '#gateway/json-scan';
import type { Span } from '#gateway/strict-json';

/** One JSON-RPC message: its own bytes, and what was read of them. */
export interface Message {
  readonly body: Buffer;
  readonly envelope: Envelope;
}

/** `undefined` for what two readers could understand differently. */
export function readMessage(bytes: Uint8Array): Message | undefined {
  const scan = scanMessage(bytes);
  if (scan.outcome === 'refused') return undefined;
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { body, envelope: scan.envelope };
}

/** @throws {TypeError} for a text that we made and that is no message */
export function messageOf(text: string): Message {
  const message = readMessage(Buffer.from(text));
  if (!message) throw new TypeError(`no message: ${text.slice(0, 100)}`);
  return message;
}

/** Where the value at `path` is, from the message's root. */
export function spanAt({ body, envelope }: Message, ...path: string[]): Span | undefined {
  let span: Span | undefined = envelope.root;
  for (const name of path) span = span && membersIn(body, span).get(name);
  return span;
}

/** The JSON text at `path`. */
export function textAt(message: Message, ...path: string[]): string | undefined {
  const span = spanAt(message, ...path);
  return span && message.body.toString('utf8', span.start, span.end);
}

/** The value at `path`. */
export function valueAt(message: Message, ...path: string[]): unknown {
  const text = textAt(message, ...path);
  return text === undefined ? undefined : JSON.parse(text);
}

/** The string at `path`; `undefined` where something else is. */
export function stringAt(message: Message, ...path: string[]): string | undefined {
  const value = valueAt(message, ...path);
  return typeof value === 'string' ? value : undefined;
}

/** The object at `path`; an empty one where something else is. */
export function objectAt(message: Message, ...path: string[]): Readonly<Record<string, unknown>> {
  const value = valueAt(message, ...path);
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {};
}
