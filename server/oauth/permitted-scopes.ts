import type { OAuthClient } from '#db/clients';
import { mayUseServer } from '#db/server-access';
import { listMemberships } from '#db/people';
import { findSettings } from '#db/settings';
import type { Db } from '#db/transaction';
import { isScope, roleScopes, type Scope, scopeWords } from '#model/scopes';
import { OAuthError } from './oauth-error.ts';
import { suspensionWords } from '#model/suspension';
import { partsOf } from '#model/slug';

export type Permitted =
  /** At least one scope. */
  | { readonly outcome: 'permitted'; readonly scopes: readonly Scope[] }
  /** Not, or no longer, a member of the organization or of a group with access to the server. */
  | { readonly outcome: 'stranger' }
  /** The client registered itself, and the organization accepts only clients that its administrators created. */
  | { readonly outcome: 'closed' }
  /** The client is Latchkey's own proxy, which the organization does not let its members connect. */
  | { readonly outcome: 'proxy-closed' }
  /** The person's role covers none of the scopes. */
  | { readonly outcome: 'nothing' };

/** The error description for a client when a person cannot grant it anything. */
export const notPermittedWords = {
  stranger: 'this server does not exist, or you have no access to it',
  closed: suspensionWords.self_registered,
  'proxy-closed': suspensionWords.latchkey_proxy,
  nothing: 'the role of this person does not include these scopes',
} as const;

/**
 * Which of `scopes` this person may grant to this client at this server now. Checked again whenever a code or a
 * refresh token is used, so that a change of settings, role or groups takes effect immediately. The admission of
 * access tokens checks the same in SQL.
 */
export async function permittedScopes(
  scopes: readonly Scope[],
  about: {
    userId: string;
    serverPath: string;
    client: Pick<OAuthClient, 'scopes' | 'organization' | 'isLatchkeyProxy'>;
    /** Whether a provider of the organization vouches for the person to this client, which the organization allowed. */
    isVouched?: boolean;
  },
  { db }: { readonly db: Db },
): Promise<Permitted> {
  const { userId, serverPath, client, isVouched = false } = about;
  const { organization } = partsOf(serverPath);
  const memberships = await listMemberships(db, userId);
  const membership = memberships.find((candidate) => candidate.organization === organization);
  const rules = await findSettings(db, organization);
  if (!membership || !rules) return { outcome: 'stranger' };
  if (!(await mayUseServer(db, userId, serverPath))) return { outcome: 'stranger' };
  if (client.organization === undefined && !isVouched) {
    if (client.isLatchkeyProxy && !rules.latchkeyProxyAllowed) return { outcome: 'proxy-closed' };
    if (!client.isLatchkeyProxy && !rules.openClientsAllowed) return { outcome: 'closed' };
  }
  const most = roleScopes(membership.role);
  const permitted = scopes.filter((scope) => most.includes(scope) && client.scopes.includes(scope));
  if (permitted.length === 0) return { outcome: 'nothing' };
  return { outcome: 'permitted', scopes: permitted };
}

/**
 * The scopes that a request names, or all `allowed` ones if it names none. An unknown or disallowed scope refuses the
 * whole request; nothing is narrowed silently.
 *
 * RFC 6749 §3.3
 *
 * @throws {OAuthError} `invalid_scope`
 */
export function requestedScopes(
  scope: string | undefined,
  allowed: readonly Scope[],
): readonly Scope[] {
  if (scope === undefined) return allowed;
  const words = scopeWords(scope);
  if (words.length === 0) return allowed;
  return words.map((word) => {
    if (isScope(word) && allowed.includes(word)) return word;
    throw new OAuthError('invalid_scope', `this client can request only: ${allowed.join(' ')}`);
  });
}
