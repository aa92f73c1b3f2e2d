import { lookup } from 'node:dns/promises';
import { setTimeout as delay } from 'node:timers/promises';

import { PlainLinks } from '#gateway/plain-calls';
import type { UpstreamRequest } from '#gateway/upstream';
import type { Clock } from '#model/clock';
import { HttpPools } from '#upstreams/http';
import { inspect } from '#upstreams/inspect';

const goodbyeMs = 1000;

/**
 * Makes a handshake with the MCP server at a valid URL that the operator chose, as the connection test of the dashboard does. Never rejects.
 *
 * @returns why the handshake failed, in a sentence; `undefined` if the server answers, even if it requires a sign-in
 */
export async function tryUrl(
  url: string,
  headers: Readonly<Record<string, string>>,
  { clock, limitMs = 5000 }: { readonly clock: Clock; readonly limitMs?: number },
): Promise<string | undefined> {
  const resolve = (host: string) => lookup(host, { all: true });
  const guard = { allowedHosts: [], resolve, tellsUnknownNames: true };
  const pools = new HttpPools({ guard, clock, connectMs: limitMs });
  const links = new PlainLinks(clock);
  const http = pools.upstream(url, false);
  const upstream = {
    send: (request: UpstreamRequest) =>
      http.send({ ...request, headers: { ...headers, ...request.headers } }),
  };
  const asked = { key: url, place: url, name: new URL(url).host };
  try {
    const rest = { upstream, timeoutMs: limitMs, wantsTools: false };
    const inspection = await inspect({ ...asked, ...rest }, links);
    const { outcome } = inspection;
    return outcome === 'connected' || outcome === 'sign-in-required'
      ? undefined
      : inspection.reason;
  } finally {
    // Ends the session, which an upstream may be slow to confirm.
    await Promise.race([links.close(), delay(goodbyeMs, undefined, { ref: false })]);
    await pools.close();
  }
}
