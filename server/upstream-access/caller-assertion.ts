import { randomUUID } from 'node:crypto';

import type { Clock } from '#clock/clock';
import type { Scope } from '#credentials/scope';
import type { AccessTokens } from '#signing/access-token';

/** Long enough for a request to arrive, and for clocks that differ. */
const lifeSeconds = 60;

/** Who calls, as an upstream may be told. */
export interface AssertedCaller {
  /** The person's id; for an application or a key that acts for itself, its own. */
  readonly subject: string;
  /** The application's client id, or the key's id. */
  readonly clientId: string;
  readonly scopes: readonly Scope[];
  /** The URL of the endpoint here that was called. */
  readonly endpoint: string;
}

/**
 * A signed assertion of who calls, for one request: a JWT access token whose audience is the upstream's URL and whose
 * key is in our JWKS. RFC 9068 §2
 *
 * Whoever administers some server here can point it at that URL and call it: by `endpoint`, which is signed with the
 * rest, an upstream tells the calls of its own organization's server from all others.
 *
 * `undefined` for a URL of our own, where it could be taken for a token of ours.
 */
export async function callerAssertion(
  url: string,
  { subject, clientId, scopes, endpoint }: AssertedCaller,
  { base, tokens, clock }: { base: string; tokens: Pick<AccessTokens, 'issue'>; clock: Clock },
): Promise<string | undefined> {
  if (new URL(url).origin === new URL(base).origin) return undefined;
  const issuedAt = clock.now();
  const life = { issuedAt, expiresAt: issuedAt + lifeSeconds };
  const of = { subject, clientId, audience: url, scopes, endpoint };
  return tokens.issue({ id: randomUUID(), ...of, ...life });
}
