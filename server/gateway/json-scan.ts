import { strictJson } from './strict-json.ts';
import type { Span, StrictJson } from './strict-json.ts';
import { messageShape } from './message-shape.ts';
import type { Place } from './message-shape.ts';

/** Members of `params` that are strings wherever they are. */
const strings = ['name', 'uri', 'taskId', 'requestState', 'cursor'] as const;

/** What a strict look at one JSON-RPC message gives; all the gateway decides on. */
export type Scan =
  | { outcome: 'message'; envelope: Envelope }
  | { outcome: 'refused'; code: -32700 | -32600; reason: string };

/**
 * One JSON-RPC message, read no further than routing needs. Spans are bytes of the body that was
 * scanned. Members that are absent or of another type than here are absent here.
 */
export interface Envelope {
  kind: 'request' | 'notification' | 'response';
  root: Span;
  method?: string;
  /** The id's own JSON text: `7`, `"a"`, `1.50`, `12345678901234567890`. */
  id?: string;
  idSpan?: Span;
  /** An object in what was authorised; a peer may send any JSON value here. */
  params?: Span;
  /** A member of `params` that is there and is not the string it has to be. */
  notAString?: (typeof strings)[number];
  name?: string;
  uri?: string;
  /** JSON text of what `notifications/cancelled` is about. */
  requestId?: string;
  taskId?: string;
  requestState?: Span;
  /** Always an object. */
  meta?: Span;
  /** JSON text. */
  progressToken?: string;
  /** The modern one, `_meta["io.modelcontextprotocol/protocolVersion"]`. */
  protocolVersion?: string;
  /** The legacy one, `params.protocolVersion` of `initialize`. */
  initializeVersion?: string;
}

/**
 * Looks at one JSON-RPC message as strictly as `strictJson`, in one pass, before anything is decided
 * on it. What passes reads the same to every reader, so the caller's own bytes can go on.
 *
 * JSON-RPC 2.0 §4, §5; MCP 2025-06-18 removed batches
 */
export function scanMessage(body: Uint8Array): Scan {
  const json = strictJson(body, messageShape);
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
    span && '"-0123456789'.includes(first(span)) ? json(span) : undefined;

  if (first(root) === '[') return 'batches are not taken';
  if (first(root) !== '{') return 'a message is a JSON object';
  if (string(found.jsonrpc) !== '2.0') return 'jsonrpc is "2.0"';
  const id = idText(found.id);
  if (found.id && id === undefined) return 'an id is a string or a number';
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
  const set = <Key extends keyof Envelope>(key: Key, value: Envelope[Key] | undefined) => {
    if (value !== undefined) envelope[key] = value;
  };
  set('method', method);
  set('id', id);
  set('idSpan', found.id);
  set('params', found.params);
  set('name', string(found.name));
  set('uri', string(found.uri));
  set('requestId', idText(found.requestId));
  set('taskId', string(found.taskId));
  set('requestState', found.requestState);
  set(
    'notAString',
    strings.find((name) => found[name] && first(found[name]) !== '"'),
  );
  set('meta', found.meta);
  set('progressToken', idText(found.progressToken));
  set('protocolVersion', string(found.protocolVersion));
  if (method === 'initialize') set('initializeVersion', string(found.initializeVersion));
  return envelope;
}

/** Whether a message is an error and nothing else. One that could not be matched to its request has no id. JSON-RPC 2.0 §5 */
export function isError(message: Uint8Array): boolean {
  const json = strictJson(message, messageShape);
  if (json.outcome === 'refused') return false;
  return json.found.error !== undefined && json.found.result === undefined;
}

/** The text of UTF-8 bytes that are one character each. */
function utf8(bytes: string): string {
  // oxlint-disable-next-line no-control-regex
  return /[^\0-\x7f]/.test(bytes) ? Buffer.from(bytes, 'latin1').toString() : bytes;
}
