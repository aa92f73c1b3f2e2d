import { insertAuditEvent } from '#db/audit';
import type { Clock } from '#clock/clock';
import { hashSecret } from '#oauth/secrets';
import {
  findInvitation,
  acceptInvitation,
  type Invitation,
  type InvitationResult,
  type Invitee,
} from '#db/invitations';
import { transaction, type Db } from '#db/transaction';
import { PeopleRefusal } from './account-refusal.ts';
import type { Visit } from './sessions.ts';

export interface JoinPorts {
  readonly db: Db;
  readonly clock: Clock;
}

/** What the link of an invitation offers. @throws {PeopleRefusal} `link_over` */
export async function offered(linkToken: string, { db, clock }: JoinPorts): Promise<Invitation> {
  const invitation = await findInvitation(db, hashSecret(linkToken), clock.now());
  if (invitation) return invitation;
  throw new PeopleRefusal('link_over');
}

/**
 * Accepts an invitation: the person becomes a member, and is created first if new. All in one transaction, so that
 * the invitation stays open if it fails.
 *
 * @throws {PeopleRefusal} `link_over`
 */
export async function join(
  linkToken: string,
  invitee: Invitee,
  { address, requestId }: Visit,
  { db: database, clock }: JoinPorts,
): Promise<Exclude<InvitationResult, 'invalid'>> {
  return transaction(database, async (db) => {
    const { id, organization, role } = await offered(linkToken, { db, clock });
    const taken = await acceptInvitation(db, hashSecret(linkToken), invitee, clock.now());
    if (taken === 'invalid') throw new PeopleRefusal('link_over');
    if (taken !== 'done') return taken;
    await insertAuditEvent(db, {
      at: clock.now(),
      actor: `user:${invitee.id}`,
      organization,
      action: 'invitation.take',
      target: `invitation:${id} ${role}`,
      address,
      requestId,
      outcome: 'done',
    });
    return 'done';
  });
}
