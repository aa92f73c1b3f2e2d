import { notFound } from '#administration/administration-refusal';
import { groupList } from '#administration/group-operations';
import { invitationList, invitationRevoke } from '#administration/invitation-operations';
import { personList } from '#administration/people-operations';
import { perform } from '#administration/perform';
import { queryText } from '#http/query-text';
import { dashboardPath } from '#pages/dashboard-frame';
import type { Table } from '#pages/table';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { peoplePage } from './people-page.ts';
import { peopleTabs } from './people-tabs.ts';
import { questionRoutes } from './question-routes.ts';
import { recalledWork } from './recalled-work.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

const needs = { permission: 'people.read', section: 'people' } as const;
const manages = { permission: 'people.manage', section: 'people' } as const;
const notices: Readonly<Record<string, string>> = {
  removed: 'The person is removed, and what they allowed here has ended.',
  role: 'The role is changed. It counts from the next request on.',
  revoked: 'The invitation is taken back. Its link opens nothing any more.',
};

/** `/people`: who belongs to an organization, and whom it invited. */
export function peopleRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const recalled = recalledWork(ports.changes);

  door.get('/people', needs, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const path = `${dashboardPath(organization)}/people`;
    const text = queryText(request, 'filter') ?? '';
    const after = queryText(request, 'after');
    const input = { organization, ...(text && { text }), ...(after && { after }) };
    const { items, next } = await recalled([visit.role, input], () =>
      perform(personList, input, actor, ports),
    );
    const query = new URLSearchParams({ ...(text && { filter: text }), after: next ?? '' });
    const people: Table = {
      caption: 'People',
      columns: ['Address', 'Role', 'Groups', 'Second factor', 'Last here'].map((one) => ({
        text: one,
      })),
      rows: items.map((person) => ({
        id: person.id,
        cells: [
          { kind: 'name', text: person.email, href: `${path}/${person.id}` },
          { kind: 'text', text: person.role },
          { kind: 'text', text: person.groups.map(({ name }) => name).join(', ') },
          { kind: 'text', text: person.secondFactor ? 'yes' : 'none' },
          { kind: 'time', at: person.seenAt ?? undefined, otherwise: 'never' },
        ],
      })),
      empty: { text: 'Nobody here has an address like that.' },
      now: ports.clock.now(),
    };
    const mayInvite = may('people.manage');
    const data = {
      lead: 'Who belongs to this organization, and as what. A role counts from the next request on.',
      action: mayInvite ? { text: 'Invite somebody', href: `${path}/invite` } : undefined,
      tabs: peopleTabs(visit, 'people'),
      notice: notices[queryText(request, 'done') ?? ''],
      filter: { path, text },
      people,
      next: next === null ? undefined : `${path}?${query.toString()}`,
      invitations: mayInvite ? await invitationsOf(visit) : undefined,
    };
    return sendDashboardPage(reply, visit, peoplePage, data, { crumbs: [{ text: 'People' }] });
  });

  const invitationsOf = async ({ organization, actor }: DashboardVisit): Promise<Table> => {
    const { items } = await perform(invitationList, { organization }, actor, ports);
    const isGrouped = items.some(({ groupIds }) => groupIds.length > 0);
    const groups = isGrouped ? await perform(groupList, { organization }, actor, ports) : undefined;
    const nameOf = new Map(groups?.items.map(({ id, name }) => [id, name]));
    const path = `${dashboardPath(organization)}/people/invitations`;
    return {
      caption: 'Pending invitations',
      columns: ['For', 'Role', 'Groups', 'Made', 'Ends', 'Actions'].map((text) => ({ text })),
      rows: items.map(({ id, note, role, groupIds, createdAt, expiresAt }) => ({
        id,
        cells: [
          { kind: 'name', text: note || 'Whoever has the link' },
          { kind: 'text', text: role },
          { kind: 'text', text: groupIds.map((group) => nameOf.get(group) ?? '').join(', ') },
          { kind: 'time', at: createdAt, otherwise: '' },
          { kind: 'text', text: new Date(expiresAt * 1000).toISOString().slice(0, 10) },
          {
            kind: 'actions',
            actions: [
              {
                text: 'Take back',
                href: `${path}/${id}/revoke`,
                of: `the invitation for ${note || 'whoever has the link'}`,
                danger: true,
              },
            ],
          },
        ],
      })),
      empty: { text: 'None. Whoever you invite stands here until they join.' },
      now: ports.clock.now(),
    };
  };

  questionRoutes(door, '/people/invitations/:invitationId/revoke', manages, {
    async ask({ organization, actor }, { params: { invitationId = '' } }) {
      const { items } = await perform(invitationList, { organization }, actor, ports);
      const invitation = items.find(({ id }) => id === invitationId);
      if (!invitation) throw notFound('invitation');
      return {
        heading: `Take back the invitation for ${invitation.note || 'whoever has the link'}?`,
        consequences: ['Its link opens nothing any more. Whoever joined by another one stays.'],
        verb: 'Take it back',
        cancel: `${dashboardPath(organization)}/people`,
        crumbs: [{ text: 'People', href: `${dashboardPath(organization)}/people` }],
      };
    },
    async act({ organization, actor }, { params: { invitationId = '' } }) {
      await perform(invitationRevoke, { organization, invitationId }, actor, ports);
      return `${dashboardPath(organization)}/people?done=revoked`;
    },
  });
}
