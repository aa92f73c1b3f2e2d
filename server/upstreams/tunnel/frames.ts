// What goes over an agent's tunnel: frames, and the payloads in them. `docs/tunnel.md`
import { z } from 'zod';

/** Frame types of an agent's tunnel. `docs/tunnel.md` has their numbers. */
export const frameType = {
  hello: 1,
  bound: 2,
  drain: 3,
  left: 4,
  open: 16,
  head: 17,
  data: 18,
  end: 19,
  reset: 20,
  credit: 21,
} as const;

type FrameType = (typeof frameType)[keyof typeof frameType];

const headerBytes = 5;

export const maxPayloadBytes = 64 * 1024;
export const maxFrameBytes = headerBytes + maxPayloadBytes;

/** One message of a tunnel: a byte of type, four bytes of stream id, the payload. */
export interface Frame {
  /** The number as the other side sent it, known or not. */
  readonly type: number;
  /** 0 means the tunnel itself. */
  readonly stream: number;
  readonly payload: Buffer;
}

/** `undefined` for a message that is too short to be a frame. */
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
  const length = payload?.length ?? 0;
  if (length > maxPayloadBytes) throw new RangeError(`a payload of ${length} bytes`);
  const frame = Buffer.allocUnsafe(headerBytes + length);
  frame.writeUInt8(type, 0);
  frame.writeUInt32BE(stream, 1);
  if (payload) frame.set(payload, headerBytes);
  return frame;
}

/** A frame whose payload is a JSON object. @throws {RangeError} as `writeFrame` does */
export function jsonFrame(type: FrameType, stream: number, value: object): Buffer {
  return writeFrame(type, stream, Buffer.from(JSON.stringify(value)));
}

/** A CREDIT frame: the other side may send that many more bytes. */
export function creditFrame(stream: number, bytes: number): Buffer {
  const payload = Buffer.allocUnsafe(4);
  payload.writeUInt32BE(bytes, 0);
  return writeFrame(frameType.credit, stream, payload);
}

const maxServers = 1000;
const maxDetailLength = 300;

const helloSchema = z.object({
  version: z.string().max(64),
  /** The same for the life of the agent's process. */
  instance: z.string().min(1).max(128).optional(),
  servers: z
    .array(z.object({ name: z.string().max(63), kind: z.string().max(32) }))
    .max(maxServers),
});

/** How an agent describes itself. */
export type Hello = z.infer<typeof helloSchema>;

// Only values that are valid in a header are passed on: a line break would start another header.
const headerText = z
  .string()
  .max(1024)
  .regex(/^[\x20-\x7e]*$/);

const headSchema = z.object({
  status: z.int().min(200).max(599),
  headers: z
    .object({
      'content-type': headerText.optional(),
      'mcp-session-id': headerText.min(1).optional(),
      'retry-after': headerText.optional(),
    })
    .default({}),
});

/** The head of an agent's answer. Other headers are dropped. */
export type Head = z.infer<typeof headSchema>;

const resetCodes = [
  'cancelled',
  'unknown_server',
  'unreachable',
  'timeout',
  'too_large',
  'broken',
  'busy',
] as const;

/** Why a stream ends early. */
export type ResetCode = (typeof resetCodes)[number];

const resetSchema = z.object({
  code: z.enum(resetCodes).catch('broken'),
  detail: z.string().catch(''),
});

export interface Reset {
  readonly code: ResetCode;
  /** One line for a log or a page. */
  readonly detail: string;
}

/** `undefined` when the payload is not a HELLO. */
export function readHello(payload: Buffer): Hello | undefined {
  return helloSchema.safeParse(json(payload)).data;
}

/** `undefined` when the payload is not a HEAD. */
export function readHead(payload: Buffer): Head | undefined {
  return headSchema.safeParse(json(payload)).data;
}

/** A RESET that cannot be parsed still resets its stream, as `broken`. */
export function readReset(payload: Buffer): Reset {
  const { data } = resetSchema.safeParse(json(payload));
  const detail = (data?.detail ?? '').replaceAll(/\p{C}+/gu, ' ').slice(0, maxDetailLength);
  return { code: data?.code ?? 'broken', detail };
}

/** The bytes that a CREDIT allows; `undefined` when it allows none. */
export function readCredit(payload: Buffer): number | undefined {
  if (payload.length !== 4) return undefined;
  return payload.readUInt32BE(0) || undefined;
}

function json(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString('utf8'));
  } catch {
    return undefined;
  }
}
