import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';

import { Agent, request, type Dispatcher } from 'undici';

import { answerLookup, checkedAddresses, type OutboundGuard } from './checked-addresses.ts';
import { OutboundError } from './outbound-error.ts';

export interface OutboundOptions extends OutboundGuard {
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** For answers whose status says all: of their body at most `maxBytes` are taken, and thrown away. */
  readonly discardsBody?: boolean;
}

export interface GuardedRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal?: AbortSignal;
}

/** Asks a URL that somebody else chose, as `fetch` does; a redirect is an answer and not followed. */
export type GuardedFetch = (url: string, asked?: GuardedRequest) => Promise<Response>;

/**
 * Asks URLs that somebody else chose. Only the public internet is reached: the very address that was checked
 * is the one that is dialled, whatever the name resolves to next. The body is there whole, or not at all.
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
    const dispatcher = new Agent({ connect: { lookup: pinned(addresses) }, pipelining: 0 });
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

function hasBody(status: number): boolean {
  return status !== 204 && status !== 205 && status !== 304;
}

/** Names the addresses that were checked, instead of asking again. */
function pinned(addresses: LookupAddress[]): LookupFunction {
  return (_host, { all }, found) => answerLookup(addresses, all === true, found);
}

async function limited(body: AsyncIterable<Uint8Array>, maxBytes: number) {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new OutboundError('too_large', `more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Lets a receiver finish what it says; what it answered stands, however that ends. */
async function discarded(
  body: Dispatcher.ResponseData['body'],
  options: { limit: number; signal: AbortSignal },
): Promise<null> {
  await body.dump(options).catch(() => undefined);
  return null;
}

/** Resolving a name takes no signal. */
function inTime<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new OutboundError('timeout', 'resolving the name takes too long'));
    signal.addEventListener('abort', late, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', late));
  });
}
