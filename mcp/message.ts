import assert from 'node:assert/strict';

import { memberIn, replaced } from './json-edit.ts';
import { membersOf } from './json-value.ts';
import {
  type JsonRules,
  type Span,
  type StrictJson,
  type Wanted,
  blankEnd,
  strictJson,
  wanted,
} from './json.ts';

/** The longest id, as JSON text. Ids are kept as long as requests wait, and compared with each other. */
export const maxIdBytes = 1024;

/** Members of `params` that must be strings if present. */
const strings = ['name', 'uri', 'taskId', 'requestState', 'cursor'] as const;

/** The result of scanning one JSON-RPC message. All routing and access decisions depend on it. */
export type Scan =
  | { outcome: 'message'; envelope: Envelope }
  | { outcome: 'refused'; code: -32700 | -32600; reason: string };

/**
 * The parts of a JSON-RPC message that routing needs. Spans are offsets in the scanned body. Members that are absent
 * or have another type are absent here.
 */
export interface Envelope {
  kind: 'request' | 'notification' | 'response';
  root: Span;
  /** The JSON text of `jsonrpc`, unless it is `"2.0"`, which could be written with escapes. */
  jsonrpc?: string;
  method?: string;
  /** The JSON text of the id: `7`, `"a"`, `1.50`, `12345678901234567890`. */
  id?: string;
  idSpan?: Span;
  /** An object in authorized requests; a peer may send any JSON value. */
  params?: Span;
  /** A member of `params` that must be a string and is not. */
  notAString?: (typeof strings)[number];
  name?: string;
  uri?: string;
  /** JSON text of the id that `notifications/cancelled` refers to. */
  requestId?: string;
  taskId?: string;
  requestState?: Span;
  /** Always an object. */
  meta?: Span;
  /** JSON text. */
  progressToken?: string;
  /** The modern version, `_meta["io.modelcontextprotocol/protocolVersion"]`. */
  protocolVersion?: string;
  /** The legacy version, `params.protocolVersion` of `initialize`. */
  initializeVersion?: string;
  result?: Span;
}

/**
 * Scans one JSON-RPC message in one pass, before any decision. `rules` default to the strictest. A message that
 * passes reads the same to every parser, so the original bytes can be forwarded.
 *
 * JSON-RPC 2.0 §4, §5; MCP 2025-06-18 removed batches
 */
export function scanMessage(body: Uint8Array, rules?: JsonRules): Scan {
  const json = strictJson(body, messageShape, rules);
  if (json.outcome === 'refused')
    return {
      outcome: 'refused',
      code: json.why === 'not JSON' ? -32700 : -32600,
      reason: json.reason,
    };
  const envelope = readEnvelope(json);
  return typeof envelope === 'string'
    ? { outcome: 'refused', code: -32600, reason: envelope }
    : { outcome: 'message', envelope };
}

function readEnvelope({
  text,
  root,
  found,
}: Extract<StrictJson<Place>, { outcome: 'json' }>): Envelope | string {
  const first = (span: Span | undefined) => (span ? text.charAt(span.start) : '');
  const json = (span: Span) => utf8(text.slice(span.start, span.end));
  const string = (span: Span | undefined): string | undefined => {
    if (!span || first(span) !== '"') return undefined;
    const raw = json(span);
    return raw.includes('\\') ? String(JSON.parse(raw)) : raw.slice(1, -1);
  };
  const idText = (span: Span | undefined) =>
    span && isIdText(first(span)) ? json(span) : undefined;

  if (first(root) === '[') return 'batches are not accepted';
  if (first(root) !== '{') return 'a message is a JSON object';
  if (string(found.jsonrpc) !== '2.0') return 'jsonrpc is "2.0"';
  const id = idText(found.id);
  if (found.id && id === undefined) return 'an id is a string or a number';
  if (id !== undefined && id.length > maxIdBytes) return `an id has more than ${maxIdBytes} bytes`;
  const method = string(found.method);
  if (found.method && method === undefined) return 'a method is a string';
  const answers = Number(found.result !== undefined) + Number(found.error !== undefined);
  if (method !== undefined && answers > 0) return 'a message has a method or an answer, not both';
  if (method === undefined) {
    if (answers !== 1) return 'a message has a method, a result or an error, one of them';
    if (id === undefined) return 'an answer has an id';
    if (found.params) return 'an answer has no params';
  }
  if (found.meta && first(found.meta) !== '{') return 'params._meta is an object';

  const envelope: Envelope = {
    kind: method === undefined ? 'response' : id === undefined ? 'notification' : 'request',
    root,
  };
  const { jsonrpc } = found;
  if (jsonrpc && jsonrpc.end - jsonrpc.start > '"2.0"'.length) envelope.jsonrpc = json(jsonrpc);
  if (method !== undefined) envelope.method = method;
  if (id !== undefined) envelope.id = id;
  if (found.id) envelope.idSpan = found.id;
  if (found.progressToken) setText(envelope, 'progressToken', idText(found.progressToken));
  if (found.protocolVersion) setText(envelope, 'protocolVersion', string(found.protocolVersion));
  if (found.meta) envelope.meta = found.meta;
  if (found.result) envelope.result = found.result;
  if (!found.params) return envelope;
  envelope.params = found.params;
  if (found.name) setText(envelope, 'name', string(found.name));
  if (found.uri) setText(envelope, 'uri', string(found.uri));
  if (found.requestId) setText(envelope, 'requestId', idText(found.requestId));
  if (found.taskId) setText(envelope, 'taskId', string(found.taskId));
  if (found.requestState) envelope.requestState = found.requestState;
  const notAString = strings.find((name) => found[name] && first(found[name]) !== '"');
  if (notAString) envelope.notAString = notAString;
  if (found.initializeVersion && method === 'initialize') {
    setText(envelope, 'initializeVersion', string(found.initializeVersion));
  }
  return envelope;
}

/** Whether a JSON text is a string or a number. */
function isIdText(json: string): boolean {
  return '"-0123456789'.includes(json.charAt(0));
}

/** The members of an envelope that are text from the params. */
type TextMember = Exclude<ParamsPlace & keyof Envelope, 'requestState' | 'meta'>;

function setText(envelope: Envelope, member: TextMember, text: string | undefined): void {
  if (text !== undefined) envelope[member] = text;
}

/**
 * Whether a message is an error response. An error for a request that could not be identified has no id. JSON-RPC 2.0 §5
 */
export function isError(message: Uint8Array): boolean {
  const json = strictJson(message, messageShape);
  if (json.outcome === 'refused') return false;
  return json.found.error !== undefined && json.found.result === undefined;
}

/** From this length on, a part of a string is a view in V8, which keeps the whole string in memory. Shorter parts are copied. */
const shortestView = 13;

/**
 * Decodes UTF-8 bytes given as one character per byte, a part of a message, into a string of its own. Code that
 * keeps the string does not keep the message.
 */
function utf8(bytes: string): string {
  // oxlint-disable-next-line no-control-regex
  const isOwn = bytes.length < shortestView && !/[^\0-\x7f]/.test(bytes);
  return isOwn ? bytes : Buffer.from(bytes, 'latin1').toString();
}

/** The name of a message member in the envelope. */
export type Place = 'jsonrpc' | 'id' | 'method' | 'params' | 'result' | 'error' | ParamsPlace;

type ParamsPlace =
  | 'name'
  | 'uri'
  | 'requestId'
  | 'taskId'
  | 'requestState'
  | 'cursor'
  | 'initializeVersion'
  | 'meta'
  | 'relatedTask'
  | 'relatedTaskId'
  | 'progressToken'
  | 'protocolVersion';

const relatedTaskShape = wanted<Place>({ taskId: { place: 'relatedTaskId' } });

const versionName = 'io.modelcontextprotocol/protocolVersion';

const metaShape = wanted<Place>({
  progressToken: { place: 'progressToken' },
  [versionName]: { place: 'protocolVersion' },
  'io.modelcontextprotocol/related-task': { place: 'relatedTask', inside: relatedTaskShape },
});

const paramsShape = wanted<Place>({
  name: { place: 'name' },
  uri: { place: 'uri' },
  requestId: { place: 'requestId' },
  taskId: { place: 'taskId' },
  requestState: { place: 'requestState' },
  cursor: { place: 'cursor' },
  protocolVersion: { place: 'initializeVersion' },
  _meta: { place: 'meta', inside: metaShape },
});

/** The members of a JSON-RPC message that scanning locates. JSON-RPC 2.0 §4, §5 */
const messageShape: Wanted<Place> = wanted<Place>(
  {
    jsonrpc: { place: 'jsonrpc' },
    id: { place: 'id' },
    method: { place: 'method' },
    params: { place: 'params', inside: paramsShape },
    result: { place: 'result' },
    error: { place: 'error' },
  },
  { closed: true },
);

/** One JSON-RPC message: its bytes and its envelope. */
export interface Message {
  readonly body: Buffer;
  readonly envelope: Envelope;
}

/** `undefined` for bytes that are not a message, or that two parsers could read differently. */
export function readMessage(bytes: Uint8Array): Message | undefined {
  const scan = scanMessage(bytes);
  if (scan.outcome === 'refused') return undefined;
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { body, envelope: scan.envelope };
}

/** @throws {TypeError} if the text, which this program made, is not a message */
export function messageOf(text: string | Buffer): Message {
  const message = readMessage(typeof text === 'string' ? Buffer.from(text) : text);
  if (!message) throw new TypeError(`no message: ${text.toString().slice(0, 100)}`);
  return message;
}

/** The span of the value at `path`, from the message's root. */
export function spanAt({ body, envelope }: Message, ...path: string[]): Span | undefined {
  const { root, params, meta, result } = envelope;
  const isParam = path[0] === 'params';
  const isMeta = isParam && path[1] === '_meta';
  const isResult = path[0] === 'result';
  let span: Span | undefined = isMeta ? meta : isParam ? params : isResult ? result : root;
  for (let at = isMeta ? 2 : isParam || isResult ? 1 : 0; span && at < path.length; at += 1) {
    span = memberIn(body, span, path[at] ?? '');
  }
  return span;
}

/** The JSON text at `path`. */
export function textAt(message: Message, ...path: string[]): string | undefined {
  const span = spanAt(message, ...path);
  return span && message.body.toString('utf8', span.start, span.end);
}

export function valueAt(message: Message, ...path: string[]): unknown {
  const text = textAt(message, ...path);
  return text === undefined ? undefined : JSON.parse(text);
}

/** The string at `path`; `undefined` if it is not a string. */
export function stringAt(message: Message, ...path: string[]): string | undefined {
  const value = valueAt(message, ...path);
  return typeof value === 'string' ? value : undefined;
}

/** The object at `path`; empty if it is not an object. */
export function objectAt(message: Message, ...path: string[]): Readonly<Record<string, unknown>> {
  return membersOf(valueAt(message, ...path));
}

/** The response `result` (JSON text) to the request of this id (JSON text). */
export function resultTo(id: string, result: string): Message {
  return messageOf(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
}

export function errorTo(id: string, code: number, message: string): Message {
  const error = JSON.stringify({ code, message });
  return messageOf(`{"jsonrpc":"2.0","id":${id},"error":${error}}`);
}

/**
 * The message with `members` (name to JSON text) in `params._meta`, which is created if missing. Existing members and
 * all other bytes stay the same. A message whose params are an array cannot have `_meta` and is returned unchanged.
 * Nothing is scanned again.
 */
export function withMeta(message: Message, members: Readonly<Record<string, string>>): Message {
  const { body, envelope } = message;
  assert(envelope.kind !== 'response', 'an answer has no params');
  const { root, params, meta } = envelope;
  const there: object = meta ? JSON.parse(body.toString('utf8', meta.start, meta.end)) : {};
  const added = Object.entries(members).filter(([name]) => !Object.hasOwn(there, name));
  if (added.length === 0 || (params && body[params.start] !== 0x7b)) return message;
  const json = added.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',');
  const at = params ? (meta ?? params).start + 1 : root.end - 1;
  const whole = meta ? json : `"_meta":{${json}}`;
  const text = params ? separated(body, at, whole) : `,"params":{${whole}}`;
  const changed = movedSpans(envelope, at, Buffer.byteLength(text));
  if (!meta) {
    const metaAt = at + text.indexOf('{', params ? 0 : text.indexOf('{') + 1);
    changed.meta = { start: metaAt, end: metaAt + 2 + Buffer.byteLength(json) };
    if (!params) changed.params = { start: at + text.indexOf('{'), end: changed.meta.end + 1 };
  }
  for (const [name, value] of added) {
    if (name === 'progressToken' && isIdText(value)) changed.progressToken = value;
    if (name === versionName && value.startsWith('"')) changed.protocolVersion = JSON.parse(value);
  }
  return { body: replaced(body, [{ span: { start: at, end: at }, text }]), envelope: changed };
}

/** The message with another id (JSON text); all other bytes stay the same, and nothing is scanned again. */
export function withId({ body, envelope }: Message, id: string): Message {
  const { idSpan } = envelope;
  assert(idSpan, 'a notification has no id');
  const by = Buffer.byteLength(id) - (idSpan.end - idSpan.start);
  return {
    body: replaced(body, [{ span: idSpan, text: id }]),
    envelope: { ...movedSpans(envelope, idSpan.start, by), id },
  };
}

/**
 * The message with another JSON text (in ASCII) at `span`, the span of a value that is no part of the envelope. All other bytes
 * stay the same, and nothing is scanned again.
 */
export function withText({ body, envelope }: Message, span: Span, text: string): Message {
  const by = text.length - (span.end - span.start);
  return {
    body: replaced(body, [{ span, text }]),
    envelope: movedSpans(envelope, span.start, by),
  };
}

/** The envelope of a message in which `by` bytes were added after `at`. */
function movedSpans(envelope: Envelope, at: number, by: number): Envelope {
  const { root, idSpan, params, meta, requestState, result } = envelope;
  const moved = ({ start, end }: Span): Span => ({
    start: start > at ? start + by : start,
    end: end > at ? end + by : end,
  });
  return {
    ...envelope,
    root: moved(root),
    ...(idSpan && { idSpan: moved(idSpan) }),
    ...(params && { params: moved(params) }),
    ...(meta && { meta: moved(meta) }),
    ...(requestState && { requestState: moved(requestState) }),
    ...(result && { result: moved(result) }),
  };
}

/** The members, with a comma after them if others follow; `at` is after an opening brace. */
function separated(body: Buffer, at: number, members: string): string {
  return body[blankEnd(body, at)] === 0x7d ? members : `${members},`;
}
