import { isIP } from 'node:net';

import { Pool, errors } from 'undici';

import { UpstreamError, type Upstream, type UpstreamAnswer } from '#gateway/upstream';
import { checkedAddresses, checkedLookup, type OutboundGuard } from '#outbound/checked-addresses';
import { BrokenOff, dispatch, type DispatchedAnswer } from './dispatch.ts';

const connectTimeoutMs = 10_000;
const answerTimeoutMs = 600_000;
// Several times what the gateway lets one credential have open: nobody takes all of them alone.
const maxConnections = 4096;

/** An MCP server over Streamable HTTP, reached through a pool of kept-alive connections. */
export interface HttpUpstream extends Upstream {
  /** Whether a request of it, or its answer, is under way. */
  readonly isBusy: () => boolean;
  close(): Promise<void>;
}

/**
 * The MCP server at `url`. Redirects are not followed and cookies not kept: the operator named one URL,
 * and nothing that it answers leads anywhere else. With a `guard` it is reached on the public internet only,
 * whatever its name resolves to.
 */
export function httpUpstream(url: string, guard?: OutboundGuard): HttpUpstream {
  const asked = new URL(url);
  const { origin, hostname, pathname, search } = asked;
  const pool = new Pool(origin, {
    connections: maxConnections,
    connect: { timeout: connectTimeoutMs, ...(guard && { lookup: checkedLookup(asked, guard) }) },
    headersTimeout: answerTimeoutMs,
    bodyTimeout: 0,
  });
  return {
    async send({ method, headers, body, signal }) {
      const options = {
        path: pathname + search,
        method,
        headers: { ...headers, 'accept-encoding': 'identity', 'user-agent': 'latchkey-server' },
        body: body ?? null,
      };
      try {
        // An address that is written out is dialled without being looked up.
        if (guard && isLiteral(hostname)) await checkedAddresses(asked, guard);
        return readAnswer(await dispatch(pool, options, signal));
      } catch (cause) {
        if (signal.aborted || cause instanceof UpstreamError) throw cause;
        throw new UpstreamError(codeOf(cause), `${method} ${origin}`, { cause });
      }
    },

    isBusy: () => pool.stats.size > 0,

    close: () => pool.destroy(),
  };
}

function isLiteral(hostname: string): boolean {
  return hostname.startsWith('[') || isIP(hostname) !== 0;
}

function codeOf(cause: unknown): UpstreamError['code'] {
  if (cause instanceof BrokenOff) return 'broken';
  return cause instanceof errors.HeadersTimeoutError ? 'timeout' : 'unreachable';
}

function mediaTypeOf(contentType: string): string {
  if (contentType === 'application/json') return contentType;
  return contentType.split(';')[0]?.trim().toLowerCase() ?? '';
}

function readAnswer({ statusCode, header, body }: DispatchedAnswer): UpstreamAnswer {
  // Its name is not passed on, so the caller could not undo it.
  const coding = header('content-encoding');
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    throw new UpstreamError('encoded', 'the answer is compressed');
  }
  const retryAfter = header('retry-after');
  const isSeconds = retryAfter !== undefined && /^[1-9]\d{0,5}$/.test(retryAfter);
  return {
    status: statusCode,
    mediaType: mediaTypeOf(header('content-type') ?? ''),
    sessionId: header('mcp-session-id'),
    challenge: header('www-authenticate'),
    retryAfterSeconds: isSeconds ? Number(retryAfter) : undefined,
    body,
  };
}
