import { JsonError, jsonMembers, type Span } from './json-members.ts';

/**
 * One JSON-RPC message as raw bytes, with its envelope read off them. What routing does not need
 * stays bytes, so that integers beyond 2^53 and unknown members reach the other side unharmed.
 */
export type Message = {
  /** The message's own bytes, on one line, without the line feed. */
  bytes: Buffer;
  kind: 'request' | 'notification' | 'response';
  /** The JSON text of the id as it stands; `null` in answers to what could not be read. */
  id: string | undefined;
  method: string | undefined;
  /** The top-level members, by name. */
  members: ReadonlyMap<string, Span>;
  /** What `modernVersion` has found, kept here since everybody asks; `null` when there is none. */
  version?: string | null;
};

/** Bytes that are no JSON-RPC message; `code` is the JSON-RPC error code to answer with. */
export class MessageError extends Error {
  override readonly name = 'MessageError';
  readonly code: -32700 | -32600;

  constructor(code: MessageError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * Reads the envelope of one message. JSON-RPC 2.0 §4, §5; batches are refused, as MCP has none.
 *
 * @throws {MessageError}
 */
export function readMessage(raw: Buffer): Message {
  const members = envelope(raw);
  const bytes = onOneLine(raw);
  const id = spanText(bytes, members.get('id'));
  const method = stringValue(bytes, members.get('method'));
  const answer = members.has('result') !== members.has('error');
  if (members.has('method') && method === undefined)
    throw new MessageError(-32600, 'method is not a string');
  if (method === undefined) {
    if (!answer || id === undefined) throw new MessageError(-32600, 'neither request nor answer');
    return { bytes, kind: 'response', id, method, members };
  }
  if (id === undefined) return { bytes, kind: 'notification', id, method, members };
  if (!/^["\d-]/.test(id)) throw new MessageError(-32600, 'id is neither string nor number');
  return { bytes, kind: 'request', id, method, members };
}

/** The string at `path` of a message; `undefined` when something else or nothing is there. */
export function stringAt({ bytes, members }: Message, ...path: string[]): string | undefined {
  let within: ReadonlyMap<string, Span> | undefined = members;
  for (const [index, name] of path.entries()) {
    const span: Span | undefined = within?.get(name);
    if (index === path.length - 1) return stringValue(bytes, span);
    within = span && jsonMembers(bytes, span);
  }
  return undefined;
}

/** The JSON text at `path` of a message. */
export function textAt({ bytes, members }: Message, ...path: string[]): string | undefined {
  let within: ReadonlyMap<string, Span> | undefined = members;
  for (const [index, name] of path.entries()) {
    const span: Span | undefined = within?.get(name);
    if (index === path.length - 1) return spanText(bytes, span);
    within = span && jsonMembers(bytes, span);
  }
  return undefined;
}

/** The one spelling of a number that is what it stands for: no `-0`, no zeros in front, not beyond 2^53. */
const plainInteger = /^[1-9]\d{0,14}$/;

/** One key for every spelling of an id: `1`, `1.0` and `1e0` name the same request. */
export function idKey(id: string): string {
  if (plainInteger.test(id)) return id;
  return JSON.stringify(JSON.parse(id));
}

function envelope(raw: Buffer): Map<string, Span> {
  let members: Map<string, Span> | undefined;
  try {
    members = jsonMembers(raw);
  } catch (error) {
    if (error instanceof JsonError) throw new MessageError(-32700, error.message, { cause: error });
    throw error;
  }
  if (!members) throw new MessageError(-32600, 'not an object (batches are not part of MCP)');
  return members;
}

/** A raw line break in valid JSON can only be white space between values. */
function onOneLine(raw: Buffer): Buffer {
  if (!raw.includes(0x0a) && !raw.includes(0x0d)) return raw;
  return Buffer.from(raw.map((byte) => (byte === 0x0a || byte === 0x0d ? 0x20 : byte)));
}

function spanText(bytes: Buffer, span: Span | undefined): string | undefined {
  return span && bytes.toString('utf8', span.start, span.end);
}

function stringValue(bytes: Buffer, span: Span | undefined): string | undefined {
  if (!span || bytes[span.start] !== 0x22) return undefined;
  const value: string = JSON.parse(bytes.toString('utf8', span.start, span.end));
  return value;
}
