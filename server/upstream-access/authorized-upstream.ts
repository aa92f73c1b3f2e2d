import {
  UpstreamError,
  UpstreamRefusal,
  type Upstream,
  type UpstreamAnswer,
  type UpstreamRequest,
} from '#gateway/upstream';
import { UpstreamAccessError } from './upstream-access-error.ts';

/** The header that says who calls where `Authorization` carries the upstream's own token, or a fixed header. */
export const callerHeader = 'latchkey-caller';

/** What an upstream wants to see before it answers one caller. */
export interface UpstreamCredentials {
  /** The access token; `rejected` is one that was just refused. */
  readonly token?: (rejected?: string) => Promise<string>;
  /** A new assertion of who calls. */
  readonly assertion?: () => Promise<string | undefined>;
  /** Whether a fixed header carries `Authorization` already. */
  readonly isAuthorizationFixed?: boolean;
  /** Whether the caller's own account is still connected; where it is not about one, absent. */
  readonly stands?: () => Promise<boolean>;
  /** Where the caller's person connects their account. */
  readonly page: string;
}

/**
 * An upstream that is asked with credentials of its own. A refused token is renewed and the request sent once more:
 * an upstream that answers 401 did nothing. None of its 401 and 403, which are about our token and not the caller's,
 * goes on to the caller as such.
 */
export function authorizedUpstream(upstream: Upstream, credentials: UpstreamCredentials): Upstream {
  const { token, assertion, stands, page, isAuthorizationFixed = false } = credentials;
  const sendWith = async (request: UpstreamRequest, accessToken: string | undefined) => {
    const caller = await assertion?.();
    const bearer = accessToken ?? (isAuthorizationFixed ? undefined : caller);
    const headers = {
      ...request.headers,
      ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
      ...(caller !== undefined && bearer !== caller && { [callerHeader]: caller }),
    };
    return upstream.send({ ...request, headers });
  };
  return {
    ...(stands && { stands }),
    async send(request) {
      try {
        const first = await token?.();
        const answer = await sendWith(request, first);
        if (first === undefined || !token) return answer;
        if (answer.status === 403) await checkScope(answer, page);
        if (answer.status !== 401) return answer;
        await finish(answer);
        const second = await token(first);
        const again = await sendWith(request, second);
        if (again.status === 403) await checkScope(again, page);
        if (again.status !== 401) return again;
        await finish(again);
        throw new UpstreamRefusal('token_refused', page);
      } catch (error) {
        throw error instanceof UpstreamAccessError ? refusalOf(error, page) : error;
      }
    },
  };
}

/** @throws {UpstreamRefusal} when the account may do less than this takes. RFC 6750 §3.1 */
async function checkScope(answer: UpstreamAnswer, page: string): Promise<void> {
  if (!/\berror="?insufficient_scope\b/i.test(answer.challenge ?? '')) return;
  await finish(answer);
  throw new UpstreamRefusal('scope_missing', page);
}

function refusalOf(error: UpstreamAccessError, page: string): Error {
  switch (error.code) {
    case 'not_connected':
      return new UpstreamRefusal('not_connected', page, { cause: error });
    case 'unreachable':
      return new UpstreamError('unreachable', error.message, { cause: error });
    case 'ended':
    case 'refused':
    case 'denied':
    case 'unusable':
    case 'forbidden':
      return new UpstreamRefusal('no_token', page, { cause: error });
  }
}

/** Lets the connection be used again; what is long is cut off. */
async function finish({ body }: UpstreamAnswer): Promise<void> {
  if (body instanceof Uint8Array) return;
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > 64 * 1024) return;
  }
}
