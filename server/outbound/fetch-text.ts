import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';

import { Agent, request } from 'undici';

import { answerLookup, checkedAddresses, type OutboundGuard } from './checked-addresses.ts';
import { OutboundError } from './outbound-error.ts';

export interface OutboundOptions extends OutboundGuard {
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/**
 * The body of a JSON document at a URL that somebody else chose. Only the public internet is reached:
 * the very address that was checked is the one that is dialled, whatever the name resolves to next, and
 * a redirect is not followed.
 *
 * OWASP SSRF prevention, draft-ietf-oauth-client-id-metadata-document §6.5
 *
 * @throws {OutboundError}
 */
export async function fetchText(
  url: string,
  { timeoutMs, maxBytes, ...guard }: OutboundOptions,
): Promise<string> {
  const { hostname } = new URL(url);
  const signal = AbortSignal.timeout(timeoutMs);
  const addresses = await inTime(checkedAddresses(hostname, guard), signal);
  const agent = new Agent({
    connect: { lookup: pinned(addresses) },
    pipelining: 0,
  });
  try {
    const headers = { accept: 'application/json', 'accept-encoding': 'identity' };
    const answer = await request(url, { dispatcher: agent, signal, headers });
    const { statusCode: status } = answer;
    if (status >= 300 && status < 400)
      throw new OutboundError('redirected', `${hostname} redirects`);
    if (status !== 200) throw new OutboundError('refused', `${hostname} answers ${status}`);
    if (
      !/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(String(answer.headers['content-type']))
    ) {
      throw new OutboundError('refused', `${hostname} does not answer with JSON`);
    }
    return await limited(answer.body, maxBytes);
  } catch (cause) {
    if (cause instanceof OutboundError) throw cause;
    const code = signal.aborted ? 'timeout' : 'unreachable';
    throw new OutboundError(code, `${hostname} cannot be read`, { cause });
  } finally {
    await agent.destroy();
  }
}

/** Names the addresses that were checked, instead of asking again. */
function pinned(addresses: LookupAddress[]): LookupFunction {
  return (_host, { all }, found) => answerLookup(addresses, all === true, found);
}

async function limited(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new OutboundError('too_large', `more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Resolving a name takes no signal. */
function inTime<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new OutboundError('timeout', 'resolving the name takes too long'));
    signal.addEventListener('abort', late, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', late));
  });
}
