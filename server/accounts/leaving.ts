import { insertAuditEvent, type RequestSource } from '#db/audit';
import { findInvitationsTo, revokeInvitation } from '#db/invitations';
import { countOwnerless, type OwnedCounts } from '#db/leavers';
import type { User } from '#db/people';
import { countScimTokensOf, revokeScimTokensOf } from '#db/scim-tokens';
import { findSettings } from '#db/settings';
import type { Db } from '#db/transaction';
import type { EpochSeconds } from '#model/clock';

/**
 * Announces in the audit log, and so to webhooks, that a person who left an organization owned keys, clients or agents there, which need an
 * owner and may be suspended. Runs within the transaction that ended the membership.
 *
 * The organization's invitations to their address are revoked: an unused one would let them become a member again.
 *
 * Their SCIM tokens are revoked if the rest is suspended: a person who knows one can become a member again, even after a hand-over.
 */
export async function announceLeaver(
  tx: Db,
  organization: { readonly id: string; readonly name: string },
  { id: userId, email }: Pick<User, 'id' | 'email'>,
  at: EpochSeconds,
  { address, requestId }: RequestSource,
): Promise<void> {
  const note = (action: string, target: string) =>
    insertAuditEvent(tx, {
      at,
      actor: 'system',
      organization: organization.name,
      action,
      target,
      address,
      requestId,
      outcome: 'done',
    });
  for (const invitation of await findInvitationsTo(tx, organization.id, email)) {
    await revokeInvitation(tx, organization.id, invitation);
    await note('leaver.revoke-invitation', `invitation:${invitation} user:${userId}`);
  }
  const isKept = (await findSettings(tx, organization.name))?.leaverResources === 'keep';
  const owned = ownedWords(await countOwnerless(tx, organization.id, userId));
  const ofTokens = isKept ? countScimTokensOf : revokeScimTokensOf;
  const tokens = tokenWords(await ofTokens(tx, organization.id, userId, at));
  const events = isKept
    ? ([['leaver.keep', [...owned, ...tokens]]] as const)
    : ([
        ['leaver.suspend', owned],
        ['leaver.revoke-token', tokens],
      ] as const);
  for (const [action, words] of events) {
    if (words.length === 0) continue;
    await note(action, `user:${userId} ${words.join(', ')}`);
  }
}

/** Such as `2 keys` and `1 client`. */
function ownedWords(counts: OwnedCounts): readonly string[] {
  return (['key', 'client', 'agent'] as const).flatMap((kind) => counted(counts[kind], kind));
}

function tokenWords(count: number): readonly string[] {
  return counted(count, 'SCIM token');
}

function counted(count: number, noun: string): readonly string[] {
  return count === 0 ? [] : [`${count} ${noun}${count === 1 ? '' : 's'}`];
}
