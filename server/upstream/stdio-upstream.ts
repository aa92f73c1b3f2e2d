import { LocalServerError, type LocalServer } from 'latchkey/agent';

import { UpstreamError, type Upstream } from '#gateway/upstream';

/** A command of this machine as an upstream, for one caller: sessions and children are never shared. */
export function stdioUpstream(local: LocalServer, caller: string): Upstream {
  return {
    async send({ method, headers, body, signal }) {
      try {
        const answer = await local.send({
          method,
          headers,
          caller,
          signal,
          ...(body && { body: Buffer.from(body) }),
        });
        const retryAfter = /^[1-9]\d{0,5}$/.exec(answer.headers['retry-after'] ?? '')?.[0];
        return {
          status: answer.status,
          mediaType: answer.headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? '',
          sessionId: answer.headers['mcp-session-id'],
          retryAfterSeconds: retryAfter === undefined ? undefined : Number(retryAfter),
          body: inOurWords(answer.body),
        };
      } catch (error) {
        if (error instanceof LocalServerError && error.code === 'busy') return busyAnswer();
        throw ourError(error);
      }
    },
  };
}

async function* inOurWords(chunks: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    throw ourError(error);
  }
}

function ourError(error: unknown): unknown {
  if (!(error instanceof LocalServerError)) return error;
  if (error.code === 'aborted') return new DOMException('the call was ended', 'AbortError');
  const code = error.code === 'unreachable' ? 'unreachable' : 'broken';
  return new UpstreamError(code, error.message, { cause: error });
}

const busyAnswer = () => ({
  status: 503,
  mediaType: '',
  sessionId: undefined,
  retryAfterSeconds: 1,
  body: new Uint8Array(),
});
