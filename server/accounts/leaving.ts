import { insertAuditEvent, type RequestSource } from '#db/audit';
import { countOwnerless, type OwnedCounts } from '#db/leavers';
import { findSettings } from '#db/settings';
import type { Db } from '#db/transaction';
import type { EpochSeconds } from '#model/clock';

/**
 * Announces in the audit log, and so to webhooks, that a person who left an organization answered for something there, which needs an
 * owner and may be suspended. Within the transaction that ended the membership.
 */
export async function announceLeaver(
  tx: Db,
  organization: { readonly id: string; readonly name: string },
  userId: string,
  at: EpochSeconds,
  { address, requestId }: RequestSource,
): Promise<void> {
  const counts = await countOwnerless(tx, organization.id, userId);
  const words = ownedWords(counts);
  if (words === '') return;
  const isSuspended = (await findSettings(tx, organization.name))?.leaverResources !== 'keep';
  await insertAuditEvent(tx, {
    at,
    actor: 'system',
    organization: organization.name,
    action: isSuspended ? 'leaver.suspend' : 'leaver.keep',
    target: `user:${userId} ${words}`,
    address,
    requestId,
    outcome: 'done',
  });
}

/** Such as `2 keys, 1 client`; empty for nothing. */
export function ownedWords(counts: OwnedCounts): string {
  const nouns = { key: 'key', client: 'client', agent: 'agent' } as const;
  return (['key', 'client', 'agent'] as const)
    .filter((kind) => counts[kind] > 0)
    .map((kind) => `${counts[kind]} ${nouns[kind]}${counts[kind] === 1 ? '' : 's'}`)
    .join(', ');
}
