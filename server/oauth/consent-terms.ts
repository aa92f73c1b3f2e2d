import type { Scope } from '#credentials/scope';
import type { UserStore } from '#people/user';
import type { OrganizationStore } from '#organizations/organization-store';
import { parseServerPath } from '#organizations/slug';
import type { AuthorizationRequest } from './authorization-request.ts';
import type { FindClient } from './find-client.ts';
import { permittedScopes } from './permitted-scopes.ts';

export interface ConsentTermsPorts {
  readonly findClient: FindClient;
  readonly organizations: Pick<OrganizationStore, 'serverByName'>;
  readonly users: Pick<UserStore, 'memberships'>;
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
  /** No member, or no such server, or a disabled one: it is not said which. */
  | { readonly outcome: 'stranger' }
  /** A member, whose role covers nothing of it. */
  | { readonly outcome: 'nothing' };

/**
 * What this person may grant at this moment: asked when the page is shown and again when it is answered.
 *
 * @throws {OAuthRefusal} `invalid_client` when the client is there no more.
 */
export async function consentTerms(
  request: AuthorizationRequest,
  userId: string,
  { findClient, organizations, users }: ConsentTermsPorts,
): Promise<ConsentTermsOutcome> {
  const { clientId, serverPath } = request;
  const client = await findClient(clientId, { mayFetch: true });
  const place = parseServerPath(serverPath);
  if (client === 'sign-in' || !place) return { outcome: 'stranger' };
  const scopes = await permittedScopes(request.scopes, { userId, serverPath, client }, { users });
  const server = await organizations.serverByName(place.organization, place.server);
  if (!scopes || !server || server.disabledAt !== undefined) return { outcome: 'stranger' };
  if (scopes.length === 0) return { outcome: 'nothing' };
  const withheld = request.scopes.filter((scope) => !scopes.includes(scope));
  return { outcome: 'terms', terms: { serverId: server.id, scopes, withheld } };
}
