import { guardedFetch, type OutboundOptions } from './guarded-fetch.ts';
import { OutboundError } from './outbound-error.ts';

const json = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;

/**
 * The body of a JSON document at a URL that somebody else chose, on the public internet and where the URL says:
 * a redirect is not followed.
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
    throw new OutboundError('refused', `${hostname} does not answer with JSON`);
  }
  return answer.text();
}
