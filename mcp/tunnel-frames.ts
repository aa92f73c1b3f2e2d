import { membersOf, isObject, parseJson } from './json-value.ts';

// The frames of the tunnel between an agent and the server, and their payloads. `docs/tunnel.md`

/** The WebSocket subprotocol that both ends name when they connect. */
export const subprotocol = 'latchkey-agent-1';

/** The types of frames, as `docs/tunnel.md` numbers them. */
export const frameType = {
  hello: 1,
  bound: 2,
  drain: 3,
  left: 4,
  batch: 5,
  open: 16,
  head: 17,
  data: 18,
  end: 19,
  reset: 20,
  credit: 21,
} as const;

export type FrameType = (typeof frameType)[keyof typeof frameType];

/** Why a tunnel ends: WebSocket close codes. Those of this protocol start at 4000. RFC 6455 §7.4.1 */
export const closeCode = {
  goingAway: 1001,
  notBinary: 1003,
  revoked: 4401,
  violation: 4403,
} as const;

const headerBytes = 5;

export const maxPayloadBytes = 64 * 1024;
export const maxFrameBytes = headerBytes + maxPayloadBytes;

/** How many bytes of DATA a side may send on a stream before it needs credit. */
export const windowBytes = 256 * 1024;
/** A receiver gives credit after passing on this many bytes, so that the sender rarely has to wait for credit. */
export const creditBytes = windowBytes / 4;

/** One message of a tunnel: the type (one byte), the stream id (four bytes) and the payload. */
export interface Frame {
  /** The type as received, which may be unknown. */
  readonly type: number;
  /** 0 means the tunnel itself. */
  readonly stream: number;
  /** A view of the message's bytes, not a copy. */
  readonly payload: Buffer;
}

/** Parses a frame; `undefined` for a message that is too short. */
export function readFrame(message: Buffer): Frame | undefined {
  if (message.length < headerBytes) return undefined;
  return {
    type: message.readUInt8(0),
    stream: message.readUInt32BE(1),
    payload: message.subarray(headerBytes),
  };
}

/** @throws {RangeError} when the payload is longer than a frame may be */
export function writeFrame(type: FrameType, stream: number, payload?: Uint8Array): Buffer {
  const frame = emptyFrame(type, stream, payload?.length ?? 0);
  if (payload) frame.set(payload, headerBytes);
  return frame;
}

function emptyFrame(type: FrameType, stream: number, payloadBytes: number): Buffer {
  if (payloadBytes > maxPayloadBytes) throw new RangeError(`a payload of ${payloadBytes} bytes`);
  const frame = Buffer.allocUnsafe(headerBytes + payloadBytes);
  frame.writeUInt8(type, 0);
  frame.writeUInt32BE(stream, 1);
  return frame;
}

/** A frame whose payload is a JSON object. @throws {RangeError} as `writeFrame` does */
export function jsonFrame(type: FrameType, stream: number, value: object): Buffer {
  const text = JSON.stringify(value);
  const frame = emptyFrame(type, stream, Buffer.byteLength(text));
  frame.write(text, headerBytes);
  return frame;
}

/** A CREDIT frame: the other side may send that many more bytes. */
export function creditFrame(stream: number, bytes: number): Buffer {
  const payload = Buffer.allocUnsafe(4);
  payload.writeUInt32BE(bytes, 0);
  return writeFrame(frameType.credit, stream, payload);
}

/** The bytes that a CREDIT allows; `undefined` when it allows none. */
export function readCredit(payload: Buffer): number | undefined {
  if (payload.length !== 4) return undefined;
  return payload.readUInt32BE(0) || undefined;
}

const lengthBytes = 4;

/** Fills `target` from `at` on with frames in their order, each preceded by its length. */
export function withFrames(target: Buffer, frames: readonly Buffer[], at = 0): Buffer {
  for (const frame of frames) {
    at = target.writeUInt32BE(frame.length, at);
    target.set(frame, at);
    at += frame.length;
  }
  return target;
}

/** The frames of a BATCH; `undefined` when the payload is not one. */
export function readBatch(payload: Buffer): Frame[] | undefined {
  const frames: Frame[] = [];
  for (let at = 0; at < payload.length;) {
    if (payload.length - at < lengthBytes) return undefined;
    const start = at + lengthBytes;
    at = start + payload.readUInt32BE(at);
    const frame = at <= payload.length ? readFrame(payload.subarray(start, at)) : undefined;
    if (!frame) return undefined;
    // DATA is copied, because it may wait for its reader, and a view would keep the whole batch in memory.
    const isKept = frame.type === frameType.data;
    frames.push(isKept ? { ...frame, payload: Buffer.from(frame.payload) } : frame);
  }
  return frames;
}

const maxServers = 1000;

/** How an agent describes itself. */
export interface Hello {
  readonly version: string;
  /** Identifies the agent's process. */
  readonly instance?: string | undefined;
  /** Whether the agent reads BATCH. */
  readonly batches?: boolean;
  /** Whether the agent passes the keys of people on to servers of the kind `http`. */
  readonly keys?: boolean;
  readonly servers: readonly { readonly name: string; readonly kind: string }[];
}

/** `undefined` when the payload is not a HELLO. */
export function readHello(payload: Buffer): Hello | undefined {
  const { version, instance, batches, keys, servers } = readObject(payload);
  if (!isText(version, 64)) return undefined;
  if (instance !== undefined && (!isText(instance, 128) || instance === '')) return undefined;
  if (!Array.isArray(servers) || servers.length > maxServers) return undefined;
  const offered = servers.flatMap((server: unknown) => {
    const { name, kind } = membersOf(server);
    return isText(name, 63) && isText(kind, 32) ? [{ name, kind }] : [];
  });
  if (offered.length < servers.length) return undefined;
  return {
    version,
    ...(instance !== undefined && { instance }),
    ...(batches === true && { batches }),
    ...(keys === true && { keys }),
    servers: offered,
  };
}

/** The nodes of an installation. Each node has an opaque name, which changes whenever its process restarts. */
export interface TunnelNodes {
  /** The node that the tunnel leads to. */
  readonly node: string;
  /** All nodes that are alive. */
  readonly nodes: readonly string[];
}

/** The servers that the dashboard bound to an agent; and the nodes, if the installation may have several. */
export interface Bound extends Partial<TunnelNodes> {
  readonly organization: string;
  readonly agent: string;
  readonly servers: readonly string[];
  /** Whether the server reads BATCH. */
  readonly batches?: boolean;
}

/** `undefined` when the payload is not a BOUND. */
export function readBound(payload: Buffer): Bound | undefined {
  const { organization, agent, servers, batches, node, nodes } = readObject(payload);
  if (typeof organization !== 'string' || typeof agent !== 'string') return undefined;
  if (!Array.isArray(servers)) return undefined;
  const names = servers.filter((name) => typeof name === 'string');
  const bound = { organization, agent, servers: names, ...(batches === true && { batches }) };
  if (typeof node !== 'string' || !Array.isArray(nodes)) return bound;
  return { ...bound, node, nodes: nodes.filter((name) => typeof name === 'string') };
}

/** The caller that a LEFT names; `undefined` when the payload is not a LEFT. */
export function readLeft(payload: Buffer): string | undefined {
  const { caller } = readObject(payload);
  return typeof caller === 'string' && caller !== '' ? caller : undefined;
}

/** The request in an OPEN frame. Its body follows in DATA frames. */
export interface Opening {
  readonly server: string;
  readonly method: 'POST' | 'GET' | 'DELETE';
  readonly headers: Readonly<Record<string, string>>;
  /** Identifies the caller and reveals nothing about it. */
  readonly caller: string;
  /** The caller's own key at the server, as a header. */
  readonly key?: PersonKeyHeader | undefined;
}

/** A header with a person's key. Its name is in lower case. */
export interface PersonKeyHeader {
  readonly name: string;
  readonly value: string;
}

/** `undefined` when the payload is not an OPEN. Headers that do not belong in a tunnel are dropped. */
export function readOpen(payload: Buffer): Opening | undefined {
  const { server, method, headers, caller, key } = readObject(payload);
  if (typeof server !== 'string' || typeof caller !== 'string' || caller === '') return undefined;
  if (method !== 'POST' && method !== 'GET' && method !== 'DELETE') return undefined;
  const given = membersOf(headers);
  const passed: Record<string, string> = {};
  for (const name of Object.keys(given)) {
    const value = given[name];
    if (typeof value !== 'string' || !inRequest.test(name) || /[\r\n\0]/.test(value)) continue;
    passed[name] = value;
  }
  if (key === undefined) return { server, method, caller, headers: passed };
  const header = readKey(key);
  return header && { server, method, caller, headers: passed, key: header };
}

/** `undefined` unless this is a header that may carry a key. Anything else could inject another header, or change the message. */
function readKey(value: unknown): PersonKeyHeader | undefined {
  const { name, value: text } = membersOf(value);
  if (!isText(name, 100) || !isText(text, 4096)) return undefined;
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name) || notForKeys.test(name)) return undefined;
  return /^[\x20-\x7e]+$/.test(text) ? { name, value: text } : undefined;
}

/** Headers of the connection, of framing and of MCP. RFC 9110 §7.6.1 */
const notForKeys =
  /^(?:content-|mcp-|proxy-|accept|connection$|expect$|host$|http2-settings$|keep-alive$|last-event-id$|te$|trailer$|transfer-encoding$|upgrade$|user-agent$|traceparent$|tracestate$)/;

const inRequest =
  /^(?:content-type|accept|last-event-id|traceparent|tracestate|mcp-(?:session-id|protocol-version|method|name)|mcp-param-[\w-]+)$/;

/** The headers of a request that may go through a tunnel. Names are lower case. */
export function requestHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (value !== undefined && inRequest.test(name)) passed[name] = value;
  }
  return passed;
}

/** Whether the answer to a request is a stream that stays open until it is closed. MCP 2025-11-25 and 2026-07-28 transports */
export function isListening({ method, headers }: Pick<Opening, 'method' | 'headers'>): boolean {
  return method === 'GET' || headers['mcp-method'] === 'subscriptions/listen';
}

const inAnswer = ['content-type', 'mcp-session-id', 'retry-after'] as const;

/** The head of an agent's answer. */
export interface Head {
  readonly status: number;
  readonly headers: { readonly [name in (typeof inAnswer)[number]]?: string };
}

/**
 * `undefined` when the payload is not a HEAD, or has a value that is not valid in a header: a line break would start
 * another header. Headers that do not belong in a tunnel are dropped.
 */
export function readHead(payload: Buffer): Head | undefined {
  const { status, headers = {} } = readObject(payload);
  if (typeof status !== 'number' || !Number.isInteger(status)) return undefined;
  if (status < 200 || status > 599 || !isObject(headers)) return undefined;
  const given = membersOf(headers);
  const answer: Record<string, string> = {};
  for (const name of inAnswer) {
    const value = given[name];
    if (value === undefined) continue;
    if (!isText(value, 1024) || !/^[\x20-\x7e]*$/.test(value)) return undefined;
    if (name === 'mcp-session-id' && value === '') return undefined;
    answer[name] = value;
  }
  return { status, headers: answer };
}

/** The headers of an answer that may go through a tunnel. Names are lower case. */
export function answerHeaders(headers: Readonly<Record<string, string>>): Head['headers'] {
  const passed: Record<string, string> = {};
  for (const name of inAnswer) {
    const value = headers[name];
    if (value !== undefined) passed[name] = value;
  }
  return passed;
}

const resetCodes = [
  'cancelled',
  'unknown_server',
  'unreachable',
  'unknown_host',
  'tls',
  'timeout',
  'too_large',
  'broken',
  'busy',
] as const;

/** Why a stream ends early. */
export type ResetCode = (typeof resetCodes)[number];

const maxDetailLength = 300;

export interface Reset {
  readonly code: ResetCode;
  /** One line for a log or a page. */
  readonly detail: string;
}

/** A RESET that cannot be parsed still resets its stream, as `broken`. */
export function readReset(payload: Buffer): Reset {
  const { code, detail } = readResetText(payload);
  return { code: resetCodes.find((known) => known === code) ?? 'broken', detail };
}

/** A RESET with any code, which is empty if it cannot be parsed. */
export function readResetText(payload: Buffer): { readonly code: string; readonly detail: string } {
  const { code, detail } = readObject(payload);
  const text = typeof detail === 'string' ? detail : '';
  return {
    code: typeof code === 'string' ? code : '',
    detail: text.replaceAll(/\p{C}+/gu, ' ').slice(0, maxDetailLength),
  };
}

/**
 * Batches the writes of a connection. Small frames come in groups; written singly, each would cost a system call and
 * wake the peer.
 */
export function batchWrites(connection: { cork(): void; uncork(): void }) {
  let isHeld = false;
  const release = () => {
    if (!isHeld) return;
    isHeld = false;
    connection.uncork();
  };
  return {
    /** Starts to hold back writes, until `release` or the end of this turn. */
    hold(): void {
      if (isHeld) return;
      isHeld = true;
      connection.cork();
      setImmediate(release);
    },
    release,
  };
}

/** Holds back what is written to a connection until the end of the current turn of the event loop. */
export type WriteBatch = ReturnType<typeof batchWrites>;

/** A longer frame is sent alone: copying it into a batch costs more than a message of its own. */
const maxBatchedBytes = 16 * 1024;

/** Sends the frames of one turn of the event loop at the end of that turn, in order. */
export class FrameWriter {
  readonly #write: (message: Buffer) => void;
  readonly #writes: WriteBatch;
  #joins = false;
  #frames: Buffer[] = [];
  #bytes = 0;

  /** `write` sends one message over `connection`. */
  constructor(connection: { cork(): void; uncork(): void }, write: (message: Buffer) => void) {
    this.#writes = batchWrites(connection);
    this.#write = write;
  }

  /** From now on, joins small frames in BATCH messages. Call it once the other side has announced that it reads BATCH. */
  joinFrames(): void {
    this.#joins = true;
  }

  send(frame: Buffer): void {
    if (!this.#joins || frame.length > maxBatchedBytes) {
      this.flush();
      this.#writes.hold();
      return this.#write(frame);
    }
    const bytes = lengthBytes + frame.length;
    if (this.#bytes + bytes > maxPayloadBytes) this.flush();
    if (this.#frames.length === 0) setImmediate(() => this.flush());
    this.#frames.push(frame);
    this.#bytes += bytes;
  }

  /** Sends the frames that wait. Call it before anything else is sent over the connection. */
  flush(): void {
    const [first, ...others] = this.#frames;
    if (!first) return;
    const message =
      others.length === 0
        ? first
        : withFrames(emptyFrame(frameType.batch, 0, this.#bytes), this.#frames, headerBytes);
    this.#frames = [];
    this.#bytes = 0;
    this.#write(message);
  }

  /** Sends everything that was held back. */
  release(): void {
    this.flush();
    this.#writes.release();
  }
}

function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value.length <= maxLength;
}

function readObject(payload: Buffer): Partial<Record<string, unknown>> {
  return membersOf(parseJson(payload.toString('utf8')));
}
