import { createHash } from 'node:crypto';

import { findClient, type OAuthClient } from '#db/clients';
import { findOrganization } from '#db/organizations';
import { findServer } from '#db/servers';
import { listTrustRules, type TrustRule } from '#db/trust-rules';
import { isProviderIssuer } from '#db/vouching-providers';
import { parseServerPath } from '#model/slug';
import {
  type AssertionClaims,
  assertionRefused,
  type UnverifiedAssertion,
  verifyAssertion,
} from './assertions.ts';
import type { AssertionPorts } from './identity-assertion-grant.ts';
import { keySource } from './issuer-keys.ts';
import { OAuthError } from './oauth-error.ts';
import { requestedScopes } from './permitted-scopes.ts';
import {
  clientToken,
  type GrantContext,
  type Issued,
  type TokenRequest,
} from './token-response.ts';

/** The `typ` of platforms' tokens, if any. A token of another type is meant for something else. */
const workloadTypes: ReadonlySet<string | undefined> = new Set([undefined, 'jwt', 'jose']);

/**
 * Exchanges the token that a platform gave to a workload, such as a job of a CI system, for an access token of the client that trusts
 * it. The client has no secret and does not authenticate: exactly one rule of the organization must match the token.
 *
 * RFC 7523 §3, SEP-1933
 *
 * @throws {OAuthError} `invalid_request`, `invalid_grant`, `invalid_scope`
 */
export async function workloadGrant(
  { form, headers, url }: TokenRequest,
  assertion: UnverifiedAssertion,
  ports: GrantContext & Pick<AssertionPorts, 'issuerKeys' | 'ledger'>,
): Promise<Issued & { readonly client: OAuthClient }> {
  const { db, base, endpointUrl, ledger } = ports;
  const isAuthenticated = ['client_secret', 'client_assertion', 'client_assertion_type'];
  if (headers.authorization !== undefined || isAuthenticated.some((name) => form.has(name))) {
    throw new OAuthError('invalid_request', 'the client of a workload has no credentials');
  }
  const resource = form.get('resource');
  if (resource === undefined) throw new OAuthError('invalid_request', 'resource is missing');
  if (!workloadTypes.has(assertion.typ)) throw assertionRefused('is of another type');
  const start = endpointUrl('');
  const place = resource.startsWith(start)
    ? parseServerPath(resource.slice(start.length))
    : undefined;
  const server = place && (await findServer(db, place.organization, place.server));
  const organization = place && (await findOrganization(db, place.organization));
  if (!server || !organization || server.disabledAt !== undefined) throw noMatch();
  const { claims } = assertion;
  const at = { issuer: claims.iss, organizationId: organization.id, serverId: server.id };
  const own = [base, `${base}/`, url];
  const matching = (await listTrustRules(db, at)).filter((rule) => matches(rule, claims, own));
  const [rule, ...others] = matching;
  if (!rule || others.length > 0) throw noMatch();
  // An issuer for people must not vouch for workloads.
  if (await isProviderIssuer(db, organization.id, claims.iss)) throw noMatch();
  const client = await findClient(db, rule.clientId);
  if (!client || client.revokedAt !== undefined || client.isSuspended) throw noMatch();
  if ((form.get('client_id') ?? client.id) !== client.id) throw noMatch();
  const { issuer, longestLifeSeconds, isSingleUse } = rule;
  const source = keySource(rule);
  const terms = { source, issuer, audiences: [claims.aud], longestLifeSeconds };
  await verifyAssertion(assertion, terms, ports);
  const scopes = requestedScopes(form.get('scope'), client.scopes);
  if (isSingleUse) {
    const id = claims.jti ?? digestOf(assertion);
    const spent = { issuer, organizationId: organization.id, source, id, exp: claims.exp };
    if (!(await ledger.spend(spent))) throw assertionRefused('was used before');
  }
  return { ...clientToken(client, { scopes, audience: resource }, ports), client };
}

/** Whether a token is one that the rule trusts, as far as its claims tell. */
function matches(
  { audience, subject, claim }: TrustRule,
  claims: AssertionClaims,
  own: readonly string[],
): boolean {
  const audiences = audience === undefined ? own : [audience];
  if (!audiences.includes(claims.aud) || !matchesSubject(subject, claims.sub)) return false;
  return claim === undefined || textOf(claims[claim.name]) === claim.value;
}

/** A `*` at the end of a pattern stands for at least one character. */
export function matchesSubject(pattern: string, subject: string): boolean {
  if (!pattern.endsWith('*')) return subject === pattern;
  const start = pattern.slice(0, -1);
  return subject.startsWith(start) && subject.length > start.length;
}

/** Texts, numbers and booleans are compared as text. */
function textOf(claim: unknown): string | undefined {
  return typeof claim === 'string' || typeof claim === 'number' || typeof claim === 'boolean'
    ? String(claim)
    : undefined;
}

/** Identifies a token without `jti` by its signed part: its signature may have several forms. */
function digestOf({ text }: UnverifiedAssertion): string {
  return createHash('sha256')
    .update(text.slice(0, text.lastIndexOf('.')))
    .digest('hex');
}

/** The same answer for every cause, because no one has proved anything yet. */
function noMatch(): OAuthError {
  return assertionRefused('matches no client of this server');
}
