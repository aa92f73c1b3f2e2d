import type { ServerResponse } from 'node:http';

import type { GatewayAnswer } from '#gateway/exchange';

/** Sends what the gateway answers, as fast as the caller takes it. Rejects when it cannot begin. */
export async function sendAnswer(response: ServerResponse, answer: GatewayAnswer): Promise<void> {
  const { status, headers, body } = answer;
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
    const length = status === 204 ? {} : { 'Content-Length': Buffer.byteLength(body ?? '') };
    response.writeHead(status, { ...headers, ...length });
    // As a string it goes out in one write with the headers.
    if (body instanceof Uint8Array) response.end(latin1(body), 'latin1');
    else response.end(body);
    return;
  }
  try {
    response.writeHead(status, headers);
    if (headers['Content-Type'] === 'text/event-stream') response.flushHeaders();
    // A caller that left is no reason to stop reading: whether the call goes on is the gateway's to say.
    for await (const chunk of body) {
      if (!response.destroyed && !response.write(chunk)) await drained(response);
    }
    response.end();
  } catch {
    response.destroy();
  }
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

async function drained(response: ServerResponse): Promise<void> {
  await new Promise<void>((resolve) => {
    const settle = () => {
      response.off('drain', settle).off('close', settle);
      resolve();
    };
    response.on('drain', settle).on('close', settle);
  });
}
