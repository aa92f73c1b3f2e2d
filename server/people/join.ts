import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import { hashSecret } from '#credentials/secret-format';
import type { Invitation, InvitationStore, InvitationTaken, Invitee } from './invitation-store.ts';
import { PeopleRefusal } from './people-refusal.ts';
import type { Visit } from './visit.ts';

interface JoinStores {
  readonly invitations: Pick<InvitationStore, 'peek' | 'take'>;
  readonly audit: Pick<AuditLog, 'append'>;
}

export interface JoinPorts {
  readonly together: <Result>(work: (stores: JoinStores) => Promise<Result>) => Promise<Result>;
  readonly clock: Clock;
}

/** What an invitation's link offers. @throws {PeopleRefusal} `link_over` */
export async function offered(
  linkToken: string,
  { invitations, clock }: Pick<JoinStores, 'invitations'> & Pick<JoinPorts, 'clock'>,
): Promise<Invitation> {
  const invitation = await invitations.peek(hashSecret(linkToken), clock.now());
  if (invitation) return invitation;
  throw new PeopleRefusal('link_over');
}

/**
 * Takes an invitation: the person is a member from now on, made for it where they are new. All of it is
 * one transaction: where it cannot be kept, the invitation stays open.
 *
 * @throws {PeopleRefusal} `link_over`
 */
export async function join(
  linkToken: string,
  invitee: Invitee,
  { address, requestId }: Visit,
  { together, clock }: JoinPorts,
): Promise<Exclude<InvitationTaken, 'over'>> {
  return together(async ({ invitations, audit }) => {
    const { id, organization, role } = await offered(linkToken, { invitations, clock });
    const taken = await invitations.take(hashSecret(linkToken), invitee, clock.now());
    if (taken === 'over') throw new PeopleRefusal('link_over');
    if (taken !== 'done') return taken;
    await audit.append({
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
