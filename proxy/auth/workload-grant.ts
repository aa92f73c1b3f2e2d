import { createHash } from 'node:crypto';
import type { ClientCredentials } from '#config/connection';
import { OAuthError } from './errors.ts';
import { discoverForClient } from './grants.ts';
import { jwtBearerGrant, tokenOf, type OAuthPorts } from './token-request.ts';
import type { Known } from './token-source.ts';
import type { Granted } from './token-vault.ts';

export type WorkloadPorts = OAuthPorts & {
  /** As {@link readReference}, with the environment of this process. */
  readAssertion: (reference: string) => Promise<string>;
  refused: RefusedAssertions;
};

/** The assertions that an authorization server refused, as hashes. They are not sent again. */
export type RefusedAssertions = Map<string, OAuthError>;

/**
 * Fetches a token for a workload with the JWT that its platform gives it. The JWT is read again each time, because platforms replace
 * it long before it expires. No secret is stored, and after a refusal neither the same JWT nor another grant is tried.
 *
 * RFC 7523 §2.1, SEP-1933
 *
 * @throws {OAuthError}
 */
export async function workloadGrant(
  { url, credentials }: { url: string; credentials: ClientCredentials },
  prior: Known,
  { http, clock, readAssertion, refused }: WorkloadPorts,
): Promise<Granted> {
  const assertion = await readAssertion(credentials.assertion ?? '');
  const mark = createHash('sha256').update(assertion).digest('base64url');
  const known = refused.get(mark);
  if (known) throw known;
  const { discovery, scopes } = await discoverForClient({ url, credentials }, prior, http);
  try {
    const granted = await jwtBearerGrant({ assertion, scopes }, discovery, { http, clock });
    return tokenOf(granted, discovery, clock.now());
  } catch (error) {
    if (!(error instanceof OAuthError) || error.code !== 'refused') throw error;
    const { message, details } = error;
    const remedy = `check that ${discovery.issuer} trusts the issuer, subject and audience of ${credentials.assertion}`;
    const refusal = new OAuthError('refused', message, { ...details, remedy }, { cause: error });
    refused.set(mark, refusal);
    throw refusal;
  }
}
