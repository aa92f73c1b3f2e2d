import { mirroredHeaders, mirroredMember } from './headers.ts';
import { JsonError, type Span, jsonMembers } from './json.ts';

/**
 * One JSON-RPC message that is relayed as raw bytes. Only the parts that routing needs are parsed, so that integers
 * beyond 2^53 and unknown members reach the other side unchanged.
 */
export type Message = {
  /** The message on one line, without the line feed. */
  bytes: Buffer;
  kind: 'request' | 'notification' | 'response';
  /** The JSON text of the id; `null` in answers to unreadable messages. */
  id: string | undefined;
  method: string | undefined;
  /** The top-level members, by name. */
  members: ReadonlyMap<string, Span>;
  /** The result of `modernVersion`, cached; `null` if there is none. */
  version?: string | null;
};

/** Bytes that are not a JSON-RPC message; `code` is the JSON-RPC error code to answer with. */
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

/** @throws {MessageError} */
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

/** Replaces line breaks with spaces. A raw line break in valid JSON can only be white space between values. */
function onOneLine(raw: Buffer): Buffer {
  if (!raw.includes(0x0a) && !raw.includes(0x0d)) return raw;
  return Buffer.from(raw.map((byte) => (byte === 0x0a || byte === 0x0d ? 0x20 : byte)));
}

/**
 * The span of the value at `path`.
 *
 * @throws {JsonError} if an object on the path names a member twice
 */
export function spanAt({ bytes, members }: Message, ...path: string[]): Span | undefined {
  let within: ReadonlyMap<string, Span> | undefined = members;
  for (const [index, name] of path.entries()) {
    const span: Span | undefined = within?.get(name);
    if (index === path.length - 1) return span;
    within = span && jsonMembers(bytes, span);
  }
  return undefined;
}

/** The string at `path`; `undefined` if it is not a string. */
export function stringAt(message: Message, ...path: string[]): string | undefined {
  return stringValue(message.bytes, spanAt(message, ...path));
}

/** The JSON text at `path`. */
export function textAt(message: Message, ...path: string[]): string | undefined {
  return spanText(message.bytes, spanAt(message, ...path));
}

function spanText(bytes: Buffer, span: Span | undefined): string | undefined {
  return span && bytes.toString('utf8', span.start, span.end);
}

function stringValue(bytes: Buffer, span: Span | undefined): string | undefined {
  if (!span || bytes[span.start] !== 0x22) return undefined;
  const value: string = JSON.parse(bytes.toString('utf8', span.start, span.end));
  return value;
}

/** A positive integer in its canonical spelling, with at most 15 digits and therefore below 2^53. */
const plainInteger = /^[1-9]\d{0,14}$/;

/** One key for every spelling of an id: `1`, `1.0` and `1e0` name the same request. */
export function idKey(id: string): string {
  if (plainInteger.test(id)) return id;
  return JSON.stringify(JSON.parse(id));
}

const versionKey = 'io.modelcontextprotocol/protocolVersion';

/**
 * The protocol version in the `_meta` of a message of the modern era; `undefined` for a legacy one, whose version is
 * agreed on once, in `initialize`.
 *
 * MCP 2026-07-28 basic
 */
export function modernVersion(message: Message): string | undefined {
  if (message.method === undefined) return undefined;
  if (message.version === undefined) {
    const isPossible = message.bytes.includes(versionKey);
    const version = isPossible ? stringAt(message, 'params', '_meta', versionKey) : undefined;
    message.version = version ?? null;
  }
  return message.version ?? undefined;
}

/** The headers that repeat what the body says; `undefined` for a message of the legacy era. */
export function modernHeaders(message: Message): Record<string, string> | undefined {
  const version = modernVersion(message);
  if (version === undefined) return undefined;
  const { method = '' } = message;
  const member = mirroredMember(method);
  const name = member && stringAt(message, 'params', member);
  return mirroredHeaders({ version, method, name });
}

/** Why a request failed, for the person who uses the assistant. */
export type Failure = { code: number; message: string; data?: Record<string, unknown> };

/** The error response to the request with this id (JSON text, or `null` when unknown). */
export function errorAnswer(id: string, { code, message, data }: Failure): Message {
  const error = JSON.stringify({ code, message, ...(data && { data }) });
  return readMessage(Buffer.from(`{"jsonrpc":"2.0","id":${id},"error":${error}}`));
}

/** `answer` with another id, because a server may lose digits of a large id, or not know the id. */
export function answerTo(id: string, answer: Message): Message {
  if (answer.id === id) return answer;
  const name = answer.members.has('result') ? 'result' : 'error';
  const { start, end } = answer.members.get(name) ?? { start: 0, end: 0 };
  const head = Buffer.from(`{"jsonrpc":"2.0","id":${id},"${name}":`);
  return readMessage(Buffer.concat([head, answer.bytes.subarray(start, end), Buffer.from('}')]));
}
