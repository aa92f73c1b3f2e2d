import { insertAuditEvent } from '#db/audit';
import { revokeGrantsOfPerson } from '#db/person-grants';
import { revokePersonalTokens } from '#db/personal-tokens';
import {
  endSessionsAt,
  findPersonAt,
  insertLogout,
  noteAnnouncement,
  type ProviderLogout,
  type SignInPlace,
} from '#db/provider-sessions';
import { transaction } from '#db/transaction';
import type { AccountPorts } from './sessions.ts';

/** A provider, with the name of the organization that owns it; `undefined` for the provider of the installation. */
export interface NamedPlace {
  readonly place: SignInPlace;
  readonly organization: string | undefined;
}

/** Why access ended, as the audit log names it after `provider.` or `identity.`. */
type EndedBecause = 'sign-out' | 'end-access' | 'lose-person';

/**
 * Carries out a logout that a provider announced with a verified logout token. If the token names a session at the provider, the
 * sessions that it opened here end; otherwise all sessions of the person through the provider end, and applications lose their access
 * for the person. Sessions and applications at all nodes are affected, as each reads the database.
 *
 * OpenID Connect Back-Channel Logout 1.0 §2.7
 *
 * @returns `repeated` if this token arrived before
 */
export async function endByProvider(
  { place, organization }: NamedPlace,
  logout: ProviderLogout,
  { db, clock }: AccountPorts,
): Promise<'done' | 'repeated'> {
  const now = clock.now();
  const { subject, providerSession } = logout;
  return transaction(db, async (tx) => {
    if (!(await insertLogout(tx, place, logout, now))) return 'repeated';
    if (place.type === 'organization') await noteAnnouncement(tx, place.providerId, now);
    const userId = subject === undefined ? undefined : await findPersonAt(tx, place, subject);
    // Ends neither a session of someone else, nor anything for an account that no one has linked.
    if (subject !== undefined && userId === undefined) return 'done';
    if (providerSession === undefined) {
      if (userId !== undefined) {
        await endAccess({ place, organization }, userId, 'end-access', { db: tx, clock });
      }
      return 'done';
    }
    for (const ended of await endSessionsAt(tx, place, { providerSession, userId })) {
      await note({ place, organization }, ended, 'sign-out', { db: tx, clock });
    }
    return 'done';
  });
}

/**
 * Within a transaction, ends all sessions that a provider opened for a person, and the access of applications for the person in the
 * organization of the provider. The provider of the installation opens whole accounts, so it ends that access in all organizations,
 * and also personal tokens, which such a session can create.
 */
export async function endAccess(
  { place, organization }: NamedPlace,
  userId: string,
  because: Exclude<EndedBecause, 'sign-out'>,
  { db: tx, clock }: AccountPorts,
): Promise<void> {
  await endSessionsAt(tx, place, { userId });
  const within = place.type === 'organization' ? place.organizationId : undefined;
  await revokeGrantsOfPerson(tx, userId, clock.now(), within);
  if (place.type === 'installation') await revokePersonalTokens(tx, userId, clock.now());
  await note({ place, organization }, userId, because, { db: tx, clock });
}

function note(
  { place, organization }: NamedPlace,
  userId: string,
  because: EndedBecause,
  { db, clock }: AccountPorts,
): Promise<void> {
  const isOwn = place.type === 'organization';
  return insertAuditEvent(db, {
    at: clock.now(),
    actor: 'system',
    organization,
    action: isOwn ? `provider.${because}` : `identity.${because}`,
    target: `user:${userId}${isOwn ? ` provider:${place.providerId}` : ''}`,
    address: undefined,
    requestId: undefined,
    outcome: 'done',
  });
}
