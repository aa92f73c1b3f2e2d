import { Pool, errors, type Dispatcher } from 'undici';

import { UpstreamError, type Upstream, type UpstreamAnswer } from '#gateway/upstream';

const connectTimeoutMs = 10_000;
const answerTimeoutMs = 600_000;
// Several times what the gateway lets one credential have open: nobody takes all of them alone.
const maxConnections = 4096;
/** Up to this many bytes an answer is taken in one go, which costs a third of streaming it. */
const shortBytes = 64 * 1024;

/** An MCP server over Streamable HTTP, reached through a pool of kept-alive connections. */
export interface HttpUpstream extends Upstream {
  close(): Promise<void>;
}

/**
 * The MCP server at `url`. Redirects are not followed and cookies not kept: the operator named one URL,
 * and nothing that it answers leads anywhere else.
 */
export function httpUpstream(url: string): HttpUpstream {
  const { origin, pathname, search } = new URL(url);
  const pool = new Pool(origin, {
    connections: maxConnections,
    connect: { timeout: connectTimeoutMs },
    headersTimeout: answerTimeoutMs,
    bodyTimeout: 0,
  });
  return {
    async send({ method, headers, body, signal }) {
      try {
        const answer = await pool.request({
          path: pathname + search,
          method,
          headers: { ...headers, 'accept-encoding': 'identity', 'user-agent': 'latchkey-server' },
          body: body ?? null,
          signal,
        });
        return await readAnswer(answer);
      } catch (cause) {
        if (signal.aborted || cause instanceof UpstreamError) throw cause;
        const isLate = cause instanceof errors.HeadersTimeoutError;
        throw new UpstreamError(isLate ? 'timeout' : 'unreachable', `${method} ${origin}`, {
          cause,
        });
      }
    },

    close: () => pool.destroy(),
  };
}

async function readAnswer(answer: Dispatcher.ResponseData): Promise<UpstreamAnswer> {
  // Who reads the body hears of its failure; one that nobody reads may be ended without a word.
  answer.body.on('error', () => undefined);
  const header = (name: string) => [answer.headers[name]].flat()[0];
  // Its name is not passed on, so the caller could not undo it.
  if ((header('content-encoding') ?? 'identity').toLowerCase() !== 'identity') {
    throw new UpstreamError('encoded', 'the answer is compressed');
  }
  const length = Number(header('content-length') ?? Infinity);
  const retryAfter = /^[1-9]\d{0,5}$/.exec(header('retry-after') ?? '')?.[0];
  return {
    status: answer.statusCode,
    mediaType: header('content-type')?.split(';')[0]?.trim().toLowerCase() ?? '',
    sessionId: header('mcp-session-id'),
    retryAfterSeconds: retryAfter === undefined ? undefined : Number(retryAfter),
    body: length <= shortBytes ? await whole(answer.body) : answer.body,
  };
}

async function whole(body: Dispatcher.ResponseData['body']): Promise<Uint8Array> {
  try {
    return await body.bytes();
  } catch (cause) {
    throw new UpstreamError('broken', 'the answer broke off', { cause });
  }
}
