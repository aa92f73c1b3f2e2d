import { creditFrame, frameType, jsonFrame, maxPayloadBytes, writeFrame } from './frame.ts';
import { answerHeaders, type Opening } from './payloads.ts';
import { StreamRefusal, type Responder, type ResetCode } from './responder.ts';
import { sendWindow } from './send-window.ts';

/** One request of the server's, and our answer. */
export interface ServedStream {
  /** Whether its answer has no end of its own. */
  readonly isListening: boolean;
  gotData(payload: Buffer): void;
  gotEnd(): void;
  gotCredit(payload: Buffer): void;

  /** The server wants no more of it, or is gone. Nothing is sent any more. */
  cut(): void;
}

export type ServedStreamPorts = {
  id: number;
  /** Resolves when there is room for the next. */
  send: (frame: Buffer) => Promise<void>;
  responder: Responder;
  maxBodyBytes: number;
  /** Told once, when the stream is over. */
  over: () => void;
};

/** A quarter of what may be sent without credit: the sender never waits for it. */
const creditBytes = 64 * 1024;

export function servedStream(opening: Opening, ports: ServedStreamPorts): ServedStream {
  const { id, send, responder, maxBodyBytes, over } = ports;
  const window = sendWindow();
  const ending = new AbortController();
  const chunks: Buffer[] = [];
  let bytes = 0;
  let uncredited = 0;
  let isAsked = false;
  let isOver = false;

  function finish(): void {
    if (isOver) return;
    isOver = true;
    window.end();
    ending.abort();
    over();
  }

  function refuse(code: ResetCode, detail: string): void {
    if (isOver) return;
    void send(jsonFrame(frameType.reset, id, { code, detail: detail.slice(0, 500) }));
    finish();
  }

  async function answer(): Promise<void> {
    const body = Buffer.concat(chunks.splice(0));
    const request = { ...opening, ...(body.length > 0 && { body }), signal: ending.signal };
    const { status, headers, body: said } = await responder.respond(request);
    if (isOver) return void stopReading(said);
    await send(jsonFrame(frameType.head, id, { status, headers: answerHeaders(headers) }));
    for await (const chunk of said) {
      for (let at = 0; at < chunk.length;) {
        const length = await window.take(Math.min(chunk.length - at, maxPayloadBytes));
        if (isOver) return;
        await send(writeFrame(frameType.data, id, chunk.subarray(at, at + length)));
        at += length;
      }
      if (isOver) return;
    }
    if (isOver) return;
    await send(writeFrame(frameType.end, id));
    finish();
  }

  return {
    isListening:
      opening.method === 'GET' || opening.headers['mcp-method'] === 'subscriptions/listen',
    gotData(payload) {
      if (isAsked || isOver) return;
      bytes += payload.length;
      if (bytes > maxBodyBytes) return refuse('too_large', `a request over ${maxBodyBytes} bytes`);
      chunks.push(payload);
      uncredited += payload.length;
      // A frame for every piece would wake the server once more for every call, which needs none.
      if (uncredited < creditBytes) return;
      void send(creditFrame(id, uncredited));
      uncredited = 0;
    },
    gotEnd() {
      if (isAsked || isOver) return;
      isAsked = true;
      answer().catch((error: unknown) => {
        if (error instanceof StreamRefusal) return refuse(error.code, error.message);
        if (ending.signal.aborted) return finish();
        refuse('broken', 'the agent failed');
        throw error;
      });
    },
    gotCredit(payload) {
      if (payload.length === 4) window.allow(payload.readUInt32BE());
    },
    cut: finish,
  };
}

async function stopReading(body: AsyncIterable<Buffer>): Promise<void> {
  await body[Symbol.asyncIterator]().return?.();
}
