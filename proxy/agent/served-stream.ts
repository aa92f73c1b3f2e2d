import {
  type Opening,
  type ResetCode,
  answerHeaders,
  creditBytes,
  creditFrame,
  frameType,
  isListening,
  jsonFrame,
  maxPayloadBytes,
  readCredit,
  writeFrame,
  windowBytes,
} from 'latchkey-mcp/tunnel-frames';

import { chunksOf } from './local-server.ts';

/** A request from the tunnel, with its whole body. */
export type TunnelRequest = Opening & {
  body?: Buffer;
  /** Aborts when the request ends, whether answered or not. */
  signal: AbortSignal;
};

export type TunnelAnswer = {
  status: number;
  headers: Readonly<Record<string, string>>;
  /** A buffer if the whole answer had arrived. */
  body: Buffer | AsyncIterable<Buffer>;
};

/** Answers the requests of a tunnel. */
export interface Responder {
  /** @throws {StreamRefusal} reading the body may throw it, too */
  respond(request: TunnelRequest): Promise<TunnelAnswer>;
}

/** Ends a request without an answer, or in the middle of it. The server logs the message, so it contains no secrets. */
export class StreamRefusal extends Error {
  override readonly name = 'StreamRefusal';
  readonly code: ResetCode;

  constructor(code: ResetCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export type ServedStreamPorts = {
  id: number;
  /** Resolves when another frame can be sent. */
  send: (frame: Buffer) => Promise<void>;
  responder: Responder;
  maxBodyBytes: number;
  /** Called once, when the stream has ended. */
  onEnd: () => void;
};

/** Created once, because capturing its stack on every call would take as long as everything else at the end of a call. */
const streamEnded = new DOMException('the stream has ended', 'AbortError');

export function servedStream(opening: Opening, ports: ServedStreamPorts) {
  const { id, send, responder, maxBodyBytes, onEnd } = ports;
  const window = sendWindow();
  const ending = new AbortController();
  const chunks: Buffer[] = [];
  let bytes = 0;
  let uncredited = 0;
  let isComplete = false;
  let isEnded = false;

  function finish(): void {
    if (isEnded) return;
    isEnded = true;
    window.end();
    ending.abort(streamEnded);
    onEnd();
  }

  function refuse(code: ResetCode, detail: string): void {
    if (isEnded) return;
    void send(jsonFrame(frameType.reset, id, { code, detail: detail.slice(0, 500) }));
    finish();
  }

  async function answer(): Promise<void> {
    const [first = Buffer.alloc(0), ...others] = chunks.splice(0);
    const body = others.length === 0 ? first : Buffer.concat([first, ...others]);
    const request = { ...opening, ...(body.length > 0 && { body }), signal: ending.signal };
    const { status, headers, body: answered } = await responder.respond(request);
    if (isEnded) return void stopReading(answered);
    const head = jsonFrame(frameType.head, id, { status, headers: answerHeaders(headers) });
    if (answered instanceof Uint8Array && answered.length <= maxPayloadBytes) {
      // The window always has room for one payload. There are at most three frames, so only the last one waits for the socket.
      void send(head);
      if (answered.length > 0) void send(writeFrame(frameType.data, id, answered));
      await send(writeFrame(frameType.end, id));
      return finish();
    }
    await send(head);
    for await (const chunk of chunksOf(answered)) {
      for (let at = 0; at < chunk.length;) {
        const length = await window.take(Math.min(chunk.length - at, maxPayloadBytes));
        if (isEnded) return;
        await send(writeFrame(frameType.data, id, chunk.subarray(at, at + length)));
        at += length;
      }
      if (isEnded) return;
    }
    if (isEnded) return;
    await send(writeFrame(frameType.end, id));
    finish();
  }

  return {
    /** Whether the answer is a stream that stays open until it is closed. */
    isListening: isListening(opening),
    gotData(payload: Buffer): void {
      if (isComplete || isEnded) return;
      bytes += payload.length;
      if (bytes > maxBodyBytes)
        return refuse('too_large', `a request larger than ${maxBodyBytes} bytes`);
      chunks.push(payload);
      uncredited += payload.length;
      // Giving credit for each chunk would cost every call another frame, and most calls need no credit.
      if (uncredited < creditBytes) return;
      void send(creditFrame(id, uncredited));
      uncredited = 0;
    },
    gotEnd(): void {
      if (isComplete || isEnded) return;
      isComplete = true;
      answer().catch((error: unknown) => {
        if (error instanceof StreamRefusal) return refuse(error.code, error.message);
        if (ending.signal.aborted) return finish();
        refuse('broken', 'the agent failed');
        throw error;
      });
    },
    gotCredit(payload: Buffer): void {
      window.allow(readCredit(payload) ?? 0);
    },
    /** Ends the stream without sending anything: the server cancelled it or is gone. */
    cut: finish,
  };
}

/** A request of the server, and our answer. */
export type ServedStream = ReturnType<typeof servedStream>;

async function stopReading(body: TunnelAnswer['body']): Promise<void> {
  if (!(body instanceof Uint8Array)) await body[Symbol.asyncIterator]().return?.();
}

function sendWindow() {
  let left = windowBytes;
  let isEnded = false;
  let change = Promise.withResolvers<void>();
  return {
    /** Takes up to `most` bytes, as soon as at least one may be sent. Resolves to 0 after `end`. */
    async take(most: number): Promise<number> {
      for (;;) {
        if (isEnded) return 0;
        if (left > 0) break;
        change = Promise.withResolvers<void>();
        await change.promise;
      }
      const taken = Math.min(most, left);
      left -= taken;
      return taken;
    },
    /** The server accepts this many more bytes. */
    allow(bytes: number): void {
      left = Math.min(left + bytes, Number.MAX_SAFE_INTEGER);
      change.resolve();
    },
    /** Ends the window: waiting and later calls of `take` resolve to 0. */
    end(): void {
      isEnded = true;
      change.resolve();
    },
  };
}

/** How many bytes the server still accepts on a stream. */
export type SendWindow = ReturnType<typeof sendWindow>;
