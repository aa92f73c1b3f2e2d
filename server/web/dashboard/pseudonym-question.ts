import { findReadableCall } from '#admin/calls';
import { personPseudonymize } from '#admin/pseudonyms';
import { notFound } from '#admin/refusal';
import { findOrganization } from '#db/organizations';
import { findMember } from '#db/people';
import type { Db } from '#db/transaction';
import { type CallRecord, isPseudonym } from '#model/calls';
import { activityPath, callPath } from './calls.ts';
import type { DashboardRequest, DashboardVisit } from './guard.ts';
import type { Question } from './questions.ts';

/** The consequences for the calls of a person who gets a pseudonym. */
export const pseudonymConsequences = [
  'All calls of this person so far show a pseudonym instead. They are no longer found by name, address or ID, and this person no longer sees them.',
  'Their IP addresses and their stored arguments and results are deleted.',
  'New calls show the name again. The audit log, exports and backups stay as they are.',
  'This cannot be undone, and no one can look up afterwards whose pseudonym it is.',
];

export const pseudonymVerb = 'Replace by a pseudonym';
export const pseudonymDone = 'The name is being replaced by a pseudonym. This takes a few minutes.';

export function pseudonymHeading(name: string): string {
  return `Replace ${name} by a pseudonym in all recorded calls?`;
}

/** The person of a call, if they left the organization or their account was deleted, so that they have no page of their own. */
export async function leaverOf(
  { organizationId, person }: Pick<CallRecord, 'organizationId' | 'person'>,
  db: Db,
): Promise<CallRecord['person']> {
  if (!person || isPseudonym(person.id)) return undefined;
  return (await findMember(db, organizationId, person.id)) ? undefined : person;
}

/** Asks before the person of a call, who has left the organization, gets a pseudonym. */
export const leaverQuestion: Question = {
  async ask(visit, request, { ports }) {
    const { call, leaver } = await find(visit, request, ports.db);
    const expected = leaver.name || leaver.id;
    return {
      heading: pseudonymHeading(expected),
      consequences: pseudonymConsequences,
      verb: pseudonymVerb,
      typed: { label: `Type ${expected} to confirm`, expected, error: undefined },
      cancel: callPath(visit.organization, call),
      crumbs: [
        { text: 'Activity', href: activityPath(visit.organization) },
        { text: 'Call', href: callPath(visit.organization, call) },
        { text: 'Pseudonym' },
      ],
    };
  },
  async act(visit, request, { ports }) {
    const { call, leaver } = await find(visit, request, ports.db);
    await visit.perform(personPseudonymize, { userId: leaver.id, callId: call.id });
    return `${callPath(visit.organization, call)}?done=pseudonymize`;
  },
};

async function find(visit: DashboardVisit, { params }: DashboardRequest, db: Db) {
  const organization = await findOrganization(db, visit.organization);
  if (!organization) throw notFound('organization');
  const call = await findReadableCall(params['callId'] ?? '', { ...visit, organization }, db);
  const leaver = await leaverOf(call, db);
  if (!leaver) throw notFound('person');
  return { call, leaver };
}
