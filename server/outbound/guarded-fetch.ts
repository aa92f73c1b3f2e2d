import { GatheredBytes } from 'latchkey-mcp/gathered-bytes';

import type { Dispatcher } from 'undici';

import {
  checkedAddresses,
  OutboundError,
  type OutboundGuard,
  pinnedLookup,
} from './checked-addresses.ts';

export interface OutboundOptions extends OutboundGuard {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** For requests whose answers matter only for their status: at most `maxBytes` of the body are read, and discarded. */
  readonly discardsBody?: boolean;
}

export interface GuardedRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal?: AbortSignal;
}

/** Requests a URL that someone else chose, as `fetch` does. A redirect is returned as the answer and not followed. */
export type GuardedFetch = (url: string, asked?: GuardedRequest) => Promise<Response>;

/**
 * Returns a `fetch` for URLs that someone else chose. It reaches only the public internet and `allowedHosts`: it connects
 * to the addresses that were checked, even if the name resolves to others later. The body is read whole.
 *
 * OWASP SSRF prevention
 *
 * Rejects with `OutboundError`.
 */
export function guardedFetch({
  timeoutMs,
  maxBytes,
  discardsBody = false,
  ...guard
}: OutboundOptions): GuardedFetch {
  return async (url, { method = 'GET', headers = {}, body, signal: ended } = {}) => {
    const asked = new URL(url);
    const { hostname, protocol } = asked;
    if (protocol !== 'https:' && protocol !== 'http:') {
      throw new OutboundError('forbidden', `${protocol} is not asked`);
    }
    const late = AbortSignal.timeout(timeoutMs);
    const signal = ended ? AbortSignal.any([late, ended]) : late;
    const addresses = await inTime(checkedAddresses(asked, guard), signal);
    // Loaded here, because most commands request nothing.
    const { Agent, request } = await import('undici');
    const dispatcher = new Agent({ connect: { lookup: pinnedLookup(addresses) }, pipelining: 0 });
    try {
      const answer = await request(url, {
        dispatcher,
        signal,
        method: method === 'POST' || method === 'DELETE' ? method : 'GET',
        headers: { ...headers, 'accept-encoding': 'identity' },
        body: body ?? null,
      });
      const bytes = discardsBody
        ? await discarded(answer.body, { limit: maxBytes, signal })
        : await limited(answer.body, maxBytes);
      return new Response(hasBody(answer.statusCode) ? bytes : null, {
        status: answer.statusCode,
        headers: Object.entries(answer.headers).flatMap(([name, values]) =>
          [values ?? []].flat().map((value): [string, string] => [name, value]),
        ),
      });
    } catch (cause) {
      if (cause instanceof OutboundError) throw cause;
      const code = signal.aborted ? 'timeout' : 'unreachable';
      throw new OutboundError(code, `${hostname} cannot be read`, { cause });
    } finally {
      await dispatcher.destroy();
    }
  };
}

/** Adapts a guarded fetch to `openid-client`, whose requests have a form or a text as their body. */
export function openIdFetch(guarded: GuardedFetch) {
  return (url: string, { method, headers, body, signal }: LibraryRequest): Promise<Response> =>
    guarded(url, { method, headers, body: bodyText(body), ...(signal && { signal }) });
}

interface LibraryRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
}

function bodyText(body: unknown): string | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body === 'string') return body;
  if (body instanceof URLSearchParams) return body.toString();
  throw new TypeError('no request of ours has such a body');
}

function hasBody(status: number): boolean {
  return status !== 204 && status !== 205 && status !== 304;
}

async function limited(body: AsyncIterable<Uint8Array>, maxBytes: number) {
  const gathered = new GatheredBytes();
  for await (const chunk of body) {
    gathered.add(chunk);
    if (gathered.length > maxBytes) {
      throw new OutboundError('too_large', `more than ${maxBytes} bytes`);
    }
  }
  return gathered.whole();
}

/** Reads and discards the body, so that the receiver can finish. The status counts even if that fails. */
async function discarded(
  body: Dispatcher.ResponseData['body'],
  options: { limit: number; signal: AbortSignal },
): Promise<null> {
  await body.dump(options).catch(() => undefined);
  return null;
}

/** Rejects when `signal` aborts. The resolution of the name cannot be aborted and continues. */
function inTime<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new OutboundError('timeout', 'resolving the name takes too long'));
    signal.addEventListener('abort', late, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', late));
  });
}

const json = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;

/**
 * Returns the body of a JSON document at a URL that someone else chose. The URL must be on the public internet or on one
 * of `allowedHosts`; redirects are not followed.
 *
 * draft-ietf-oauth-client-id-metadata-document §6.5
 *
 * @throws {OutboundError}
 */
export async function fetchText(url: string, options: OutboundOptions): Promise<string> {
  const { hostname } = new URL(url);
  const answer = await guardedFetch(options)(url, { headers: { accept: 'application/json' } });
  const { status } = answer;
  if (status >= 300 && status < 400) throw new OutboundError('redirected', `${hostname} redirects`);
  if (status !== 200) throw new OutboundError('refused', `${hostname} answers ${status}`);
  if (!json.test(answer.headers.get('content-type') ?? '')) {
    throw new OutboundError('refused', `${hostname} did not respond with JSON`);
  }
  return answer.text();
}
