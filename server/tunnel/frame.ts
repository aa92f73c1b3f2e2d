/** The types of frames of an agent's tunnel, as `docs/tunnel.md` numbers them. */
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

export type FrameType = (typeof frameType)[keyof typeof frameType];

const headerBytes = 5;

export const maxPayloadBytes = 64 * 1024;
export const maxFrameBytes = headerBytes + maxPayloadBytes;

/** One message of a tunnel: a byte of type, four bytes of stream id, the payload. */
export interface Frame {
  /** Whatever number the other side wrote. */
  readonly type: number;
  /** 0 is the tunnel itself. */
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

/** A CREDIT frame: that many more bytes may come. */
export function creditFrame(stream: number, bytes: number): Buffer {
  const payload = Buffer.allocUnsafe(4);
  payload.writeUInt32BE(bytes, 0);
  return writeFrame(frameType.credit, stream, payload);
}
