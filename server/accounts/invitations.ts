import { insertAuditEvent } from '#db/audit';
import { emailKey } from '#model/email';
import { hashSecret } from '#secrets/secrets';
import {
  findInvitation,
  acceptInvitation,
  joinedGroups,
  type Invitation,
  type InvitationResult,
  type Invitee,
} from '#db/invitations';
import { findUser } from '#db/people';
import { transaction } from '#db/transaction';
import { AccountRefusal } from './account-refusal.ts';
import type { AccountPorts, Visit } from './sessions.ts';

/** The open invitation of a link. @throws {AccountRefusal} `link_expired` */
export async function openInvitation(
  linkToken: string,
  { db, clock }: AccountPorts,
): Promise<Invitation> {
  const invitation = await findInvitation(db, hashSecret(linkToken), clock.now());
  if (invitation) return invitation;
  throw new AccountRefusal('link_expired');
}

/**
 * Accepts an invitation: the person becomes a member, and is created first if new. Audited, with the invited address if the person has another
 * one. All in one transaction, so that the invitation stays open if it fails.
 *
 * @throws {AccountRefusal} `link_expired`, `deactivated`
 */
export async function join(
  linkToken: string,
  invitee: Invitee,
  { address, requestId }: Visit,
  { db: database, clock }: AccountPorts,
): Promise<Exclude<InvitationResult, 'invalid' | 'deactivated'>> {
  return transaction(database, async (db) => {
    const invitation = await openInvitation(linkToken, { db, clock });
    const { id, organization, role, groupIds, email: meantFor } = invitation;
    const result = await acceptInvitation(db, hashSecret(linkToken), invitee, clock.now());
    if (result === 'invalid') throw new AccountRefusal('link_expired');
    if (result === 'deactivated') throw new AccountRefusal('deactivated');
    if (result !== 'done') return result;
    const note = (action: string, target: string) =>
      insertAuditEvent(db, {
        at: clock.now(),
        actor: `user:${invitee.id}`,
        organization,
        action,
        target,
        address,
        requestId,
        outcome: 'done',
      });
    await note('invitation.take', `invitation:${id} ${role}`);
    const email = invitee.email ?? (await findUser(db, invitee.id))?.email ?? '';
    if (meantFor !== undefined && emailKey(meantFor) !== emailKey(email)) {
      await note('invitation.take-other', `invitation:${id} ${meantFor}`);
    }
    for (const groupId of await joinedGroups(db, groupIds, invitee.id)) {
      await note('group.join', `group:${groupId}`);
    }
    return 'done';
  });
}
