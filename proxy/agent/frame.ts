/** The types of frames, as `docs/tunnel.md` numbers them. */
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

/** One message of the tunnel. `stream` 0 is the tunnel itself. */
export type Frame = { type: number; stream: number; payload: Buffer };

const headBytes = 5;
export const maxPayloadBytes = 64 * 1024;
export const maxFrameBytes = headBytes + maxPayloadBytes;

/** `undefined` for a message that is too short to be a frame. */
export function readFrame(message: Buffer): Frame | undefined {
  if (message.length < headBytes) return undefined;
  const payload = message.subarray(headBytes);
  return { type: message.readUInt8(0), stream: message.readUInt32BE(1), payload };
}

export function writeFrame(
  type: number,
  stream: number,
  payload: Buffer = Buffer.alloc(0),
): Buffer {
  const head = Buffer.allocUnsafe(headBytes);
  head.writeUInt8(type, 0);
  head.writeUInt32BE(stream, 1);
  return Buffer.concat([head, payload]);
}

/** A frame whose payload is JSON. */
export function jsonFrame(type: number, stream: number, value: object): Buffer {
  return writeFrame(type, stream, Buffer.from(JSON.stringify(value)));
}

/** Permission to send that many more bytes. */
export function creditFrame(stream: number, bytes: number): Buffer {
  const payload = Buffer.allocUnsafe(4);
  payload.writeUInt32BE(bytes);
  return writeFrame(frameType.credit, stream, payload);
}
