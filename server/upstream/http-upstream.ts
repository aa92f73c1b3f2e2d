import { Pool, errors, type Dispatcher } from 'undici';

import { UpstreamError, type Upstream } from '#gateway/upstream';

const connectTimeoutMs = 10_000;
const answerTimeoutMs = 600_000;
const maxConnections = 256;
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
          headers: { ...headers, 'user-agent': 'latchkey-server' },
          body: body ?? null,
          signal,
        });
        const header = (name: string) => {
          const value = answer.headers[name];
          return Array.isArray(value) ? value[0] : value;
        };
        const length = Number(header('content-length') ?? Infinity);
        const retryAfter = Number(header('retry-after'));
        return {
          status: answer.statusCode,
          mediaType: header('content-type')?.split(';')[0]?.trim().toLowerCase() ?? '',
          sessionId: header('mcp-session-id'),
          retryAfterSeconds:
            Number.isInteger(retryAfter) && retryAfter > 0 ? retryAfter : undefined,
          body: length <= shortBytes ? await whole(answer.body) : answer.body,
        };
      } catch (cause) {
        if (signal.aborted) throw cause;
        if (cause instanceof UpstreamError) throw cause;
        const isLate = cause instanceof errors.HeadersTimeoutError;
        throw new UpstreamError(isLate ? 'timeout' : 'unreachable', `${method} ${origin}`, {
          cause,
        });
      }
    },

    close: () => pool.destroy(),
  };
}

async function whole(body: Dispatcher.ResponseData['body']): Promise<Uint8Array> {
  try {
    return await body.bytes();
  } catch (cause) {
    throw new UpstreamError('broken', 'the answer broke off', { cause });
  }
}
