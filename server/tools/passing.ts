import type { UpstreamAnswer } from '#gateway/upstream';

// Longer lists are none that anybody reads; they pass unseen.
const mostBytes = 4 * 1024 * 1024;

/** A body that passes as it comes; `seen` is given all of it once it is over, if it is not too long. */
export function passing(
  body: UpstreamAnswer['body'],
  seen: (bytes: Buffer) => void,
): UpstreamAnswer['body'] {
  if (!(body instanceof Uint8Array)) return copied(body, seen);
  if (body.length <= mostBytes) seen(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
  return body;
}

async function* copied(
  body: AsyncIterable<Uint8Array>,
  seen: (bytes: Buffer) => void,
): AsyncGenerator<Uint8Array> {
  let chunks: Uint8Array[] | undefined = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > mostBytes) chunks = undefined;
    chunks?.push(Uint8Array.from(chunk));
    yield chunk;
  }
  if (chunks) seen(Buffer.concat(chunks));
}
