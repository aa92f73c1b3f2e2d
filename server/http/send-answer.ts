import type { ServerResponse } from 'node:http';

import type { GatewayAnswer } from '#gateway/request';
import { breakOff, whenClosed } from './closed-response.ts';

/**
 * Sends the gateway's response at the speed of the caller. `more` are additional headers, names and values in turn. A body
 * that is whole is sent when this returns. Throws or rejects if the response cannot begin.
 */
export function sendAnswer(
  response: ServerResponse,
  { status, headers, body, message, sent, whenGivenUp }: GatewayAnswer,
  more: readonly string[] = [],
): Promise<void> | undefined {
  if (sent) whenClosed(response, sent);
  // Unsent bytes would stay in memory, so the connection is closed; without any, the stream ends with an error instead.
  whenGivenUp?.(() => {
    if (response.writableLength > 0) breakOff(response);
  });
  // Node writes a list unchanged, but would validate an object twice.
  const head: string[] = [];
  for (const name of Object.keys(headers)) head.push(name, headers[name] ?? '');
  head.push(...more);
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    if (status !== 204) head.push('Content-Length', String(Buffer.byteLength(body ?? '')));
    response.writeHead(status, head);
    // A string goes out in one write with the headers.
    if (body instanceof Uint8Array) response.end(message?.text ?? latin1(body), 'latin1');
    else response.end(body);
    return undefined;
  }
  return sendStream(response, status, head, body);
}

async function sendStream(
  response: ServerResponse,
  status: number,
  head: readonly string[],
  body: AsyncIterable<Uint8Array>,
): Promise<void> {
  try {
    response.writeHead(status, [...head]);
    if (head.includes('text/event-stream')) response.flushHeaders();
    // If the caller disconnects, keep reading: the gateway decides whether the call goes on.
    for await (const chunk of body) {
      if (!response.destroyed && !response.write(chunk)) await drained(response);
    }
    response.end();
  } catch {
    breakOff(response);
  }
}

function latin1(bytes: Uint8Array): string {
  const { buffer, byteOffset, byteLength } = bytes;
  const own = Buffer.isBuffer(bytes) ? bytes : Buffer.from(buffer, byteOffset, byteLength);
  return own.toString('latin1');
}

async function drained(response: ServerResponse): Promise<void> {
  await new Promise<void>((resolve) => {
    let stop = () => {};
    const settle = () => {
      response.off('drain', settle);
      stop();
      resolve();
    };
    response.on('drain', settle);
    stop = whenClosed(response, settle);
  });
}
