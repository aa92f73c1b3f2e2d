/** Frames of a tunnel as `docs/tunnel.md` describes them, written independently so that the server is not compared with itself. */
export const types = {
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

export interface WireFrame {
  readonly type: number;
  readonly stream: number;
  readonly payload: Buffer;
  /** The payload as JSON; an empty object when it is none. */
  readonly json: Record<string, unknown>;
}

export function wireFrame(type: number, stream: number, payload: string | Uint8Array = ''): Buffer {
  const start = Buffer.from([
    type,
    (stream >>> 24) & 255,
    (stream >>> 16) & 255,
    (stream >>> 8) & 255,
    stream & 255,
  ]);
  return Buffer.concat([start, Buffer.from(payload)]);
}

export function batch(...frames: readonly Buffer[]): Buffer {
  const parts = frames.flatMap((frame) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(frame.length);
    return [length, frame];
  });
  return wireFrame(types.batch, 0, Buffer.concat(parts));
}

export function credit(stream: number, bytes: number): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(bytes);
  return wireFrame(types.credit, stream, payload);
}

export function head(stream: number, headers: object = {}, status = 200): Buffer {
  const said = { status, headers: { 'content-type': 'application/json', ...headers } };
  return wireFrame(types.head, stream, JSON.stringify(said));
}

export function hello(servers: readonly string[], but: object = {}): Buffer {
  const said = {
    version: '0.1.0',
    servers: servers.map((name) => ({ name, kind: 'stdio' })),
    ...but,
  };
  return wireFrame(types.hello, 0, JSON.stringify(said));
}

export function parsed(message: Buffer): WireFrame {
  const payload = message.subarray(5);
  return { type: message[0] ?? 0, stream: message.readUInt32BE(1), payload, json: json(payload) };
}

function json(payload: Buffer): Record<string, unknown> {
  try {
    return Object(JSON.parse(payload.toString()));
  } catch {
    return {};
  }
}
