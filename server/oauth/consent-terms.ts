import type { Scope } from '#credentials/scope';
import type { Session } from '#people/session-store';
import type { OrganizationStore } from '#organizations/organization-store';
import { parseServerPath } from '#organizations/slug';
import type { AuthorizationRequest } from './authorization-request.ts';
import type { FindClient } from './find-client.ts';
import { OAuthRefusal } from './oauth-refusal.ts';
import { permittedScopes, type Permitted, type PermittedScopesPorts } from './permitted-scopes.ts';
import { matchesRedirectUri } from './redirect-match.ts';

export interface ConsentTermsPorts extends PermittedScopesPorts {
  readonly findClient: FindClient;
  readonly organizations: Pick<OrganizationStore, 'serverByName'>;
}

/** What a person may grant of what was asked. */
export interface ConsentTerms {
  readonly serverId: string;
  /** At least one. */
  readonly scopes: readonly Scope[];
  /** Asked for, and beyond the person's role. */
  readonly withheld: readonly Scope[];
}

export type ConsentTermsOutcome =
  | { readonly outcome: 'terms'; readonly terms: ConsentTerms }
  /** No member, in no group that may, no such server, or a disabled one: it is not said which. */
  | { readonly outcome: 'stranger' }
  /** Of a member. */
  | Extract<Permitted, { outcome: 'closed' | 'nothing' }>
  /** A member, whose browser has proved less than the organization asks for. */
  | { readonly outcome: 'second-factor' };

/**
 * What this person may grant at this moment: asked when the page is shown and again when it is answered.
 *
 * @throws {OAuthRefusal} `invalid_client` when the client was removed or revoked, `invalid_request` when the redirect
 *   URI is no longer one of its own
 */
export async function consentTerms(
  request: AuthorizationRequest,
  { userId, factors }: Pick<Session, 'userId' | 'factors'>,
  ports: ConsentTermsPorts,
): Promise<ConsentTermsOutcome> {
  const { findClient, organizations, settings } = ports;
  const { clientId, serverPath } = request;
  const client = await findClient(clientId, { userId });
  const place = parseServerPath(serverPath);
  if (client === 'sign-in' || !place) return { outcome: 'stranger' };
  if (!client.redirectUris.some((uri) => matchesRedirectUri(request.redirectUri, uri))) {
    throw new OAuthRefusal('invalid_request', 'redirect_uri is not one that the client registered');
  }
  const about = { userId, serverPath, client };
  const permitted = await permittedScopes(request.scopes, about, ports);
  const server = await organizations.serverByName(place.organization, place.server);
  const rules = await settings.of(place.organization);
  if (permitted.outcome === 'stranger' || !server || server.disabledAt !== undefined || !rules)
    return { outcome: 'stranger' };
  if (rules.secondFactorRequired && factors < 2) return { outcome: 'second-factor' };
  if (permitted.outcome !== 'permitted') return permitted;
  const { scopes } = permitted;
  const withheld = request.scopes.filter((scope) => !scopes.includes(scope));
  return { outcome: 'terms', terms: { serverId: server.id, scopes, withheld } };
}
