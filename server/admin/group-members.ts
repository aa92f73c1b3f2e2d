import { listGroupMembers } from '#db/groups';
import { listInvitations, membersAmong } from '#db/invitations';
import { emailKey } from '#model/email';
import { isRight, readAddress } from './invitation-list.ts';
import type { WithDbAndClock } from './operation.ts';

/** Someone to add to a group, by the address that was typed. */
export type Candidate =
  | { readonly typed: string; readonly status: 'ready'; readonly userId: string }
  | { readonly typed: string; readonly status: 'in-group' }
  | Rejected;

/** Someone who cannot join a group, and why, as a sentence without a period. */
export interface Rejected {
  readonly typed: string;
  readonly status: 'invited' | 'stranger' | 'malformed';
  readonly why: string;
}

/** Finds out who can join a group, each person once, in the order of the addresses. Members whom only a directory put there can, too. */
export async function findCandidates(
  addresses: readonly string[],
  { organizationId, groupId }: { readonly organizationId: string; readonly groupId: string },
  { db, clock }: WithDbAndClock,
): Promise<readonly Candidate[]> {
  const read = addresses.map((typed) => ({ typed, address: readAddress(typed) }));
  const keyed = new Map(
    read.map((one) => [isRight(one.address) ? emailKey(one.address.email) : one.typed, one]),
  );
  const members = await membersAmong(db, organizationId, [...keyed.keys()]);
  const people = await listGroupMembers(db, groupId);
  const byHand = new Set(people.flatMap((one) => (one.source === 'hand' ? [one.userId] : [])));
  const pending = await listInvitations(db, organizationId, clock.now());
  const invited = new Set(pending.flatMap(({ email }) => (email ? [emailKey(email)] : [])));
  return [...keyed].map(([key, { typed, address }]): Candidate => {
    if (!isRight(address)) return { typed, status: 'malformed', why: address.wrong };
    const userId = members.get(key);
    if (userId !== undefined) {
      return byHand.has(userId)
        ? { typed, status: 'in-group' }
        : { typed, status: 'ready', userId };
    }
    const { email } = address;
    return invited.has(key)
      ? { typed, status: 'invited', why: `${email} ${notJoined}` }
      : { typed, status: 'stranger', why: `${email} is not a member: invite the person first` };
  });
}

const notJoined =
  'is invited and has not joined yet: add them after they join, or revoke the invitation and invite them again with the group';

export function isRejected(candidate: Candidate): candidate is Rejected {
  return 'why' in candidate;
}
