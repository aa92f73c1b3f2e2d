import { notFound } from '#administration/administration-refusal';
import {
  groupAddMember,
  groupMap,
  groupRemoveMember,
  groupUnmap,
} from '#administration/group-member-operations';
import { groupCreate, groupDelete, groupList, groupRead } from '#administration/group-operations';
import type { Operation } from '#administration/operation';
import { perform } from '#administration/perform';
import { seeOther } from '#http/see-other';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import type { Table } from '#pages/table';
import type { FastifyReply } from 'fastify';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { groupPage, groupsPage } from './group-pages.ts';
import { questionRoutes } from './question-routes.ts';
import { refusedForm } from './refused-form.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

const reads = { permission: 'people.read', section: 'groups' } as const;
const manages = { permission: 'people.manage', section: 'groups' } as const;
const homeOf = (organization: string) => `${dashboardPath(organization)}/groups`;

/** `/groups`: the groups of an organization, who is in them, and what they open. */
export function groupRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const list = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    { name, errors }: { name: string; errors: FieldError[] },
  ) => {
    const { organization, actor } = visit;
    const { items } = await perform(groupList, { organization }, actor, ports);
    const table: Table = {
      caption: 'Groups',
      columns: ['Name', 'People', 'Opens'].map((text) => ({ text })),
      rows: items.map((group) => ({
        id: group.id,
        cells: [
          { kind: 'name', text: group.name, href: `${homeOf(organization)}/${group.id}` },
          { kind: 'text', text: String(group.members) },
          { kind: 'text', text: group.servers.join(', ') || 'no server of its own' },
        ],
      })),
      empty: { text: 'No groups yet. Without one, every member may use every server.' },
      now: ports.clock.now(),
    };
    const mayManage = visit.may('people.manage');
    const data = { table, mayManage, action: homeOf(organization), name, errors };
    const status = errors.length > 0 ? 422 : 200;
    const crumbs = [{ text: 'Groups' }];
    return sendDashboardPage(reply, visit, groupsPage, data, { crumbs, status });
  };

  door.get('/groups', reads, (visit, _request, reply) =>
    list(reply, visit, { name: '', errors: [] }),
  );

  door.post('/groups', manages, async (visit, sent, _request, reply) => {
    const { organization, actor } = visit;
    const name = sent.get('name')?.trim() ?? '';
    try {
      const { id } = await perform(groupCreate, { organization, name }, actor, ports);
      return seeOther(reply, `${homeOf(organization)}/${id}`);
    } catch (refusal) {
      const labels = { name: { field: 'name', label: 'The name' } };
      return list(reply, visit, { name, errors: refusedForm(refusal, labels, 'name') });
    }
  });

  const show = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    groupId: string,
    errors: FieldError[] = [],
  ) => {
    const { organization, actor } = visit;
    const group = await perform(groupRead, { organization, groupId }, actor, ports);
    const home = `${homeOf(organization)}/${groupId}`;
    const data = { ...group, home, mayManage: visit.may('people.manage'), errors };
    const crumbs = [{ text: 'Groups', href: homeOf(organization) }, { text: group.name }];
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, groupPage, data, { crumbs, status });
  };

  door.get('/groups/:groupId', reads, (visit, request, reply) =>
    show(reply, visit, request.params['groupId'] ?? ''),
  );

  /** A form of a group's page that changes it, and leads back there. */
  const change = (path: string, operation: Operation, field: 'userId' | 'externalName') =>
    door.post(`/groups/:groupId/${path}`, manages, async (visit, sent, request, reply) => {
      const { organization, actor } = visit;
      const { groupId = '' } = request.params;
      const typed = sent.get(field)?.trim() ?? '';
      try {
        const input = { organization, groupId, [field]: typed };
        await perform(operation, input, actor, ports);
      } catch (refusal) {
        const labels = { [field]: { field, label: 'The name' } };
        return show(reply, visit, groupId, refusedForm(refusal, labels));
      }
      return seeOther(reply, `${homeOf(organization)}/${groupId}`);
    });
  change('remove-person', groupRemoveMember, 'userId');
  change('map', groupMap, 'externalName');
  change('unmap', groupUnmap, 'externalName');

  door.post('/groups/:groupId/add-person', manages, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { groupId = '' } = request.params;
    await perform(groupRead, { organization, groupId }, actor, ports);
    const user = await ports.users.byEmail(sent.get('email') ?? '');
    const place = await ports.organizations.byName(organization);
    const member = user && place && (await ports.memberships.of(place.id, user.id));
    if (!member) {
      const message = 'Nobody here has this address. Invite them first.';
      return show(reply, visit, groupId, [{ field: 'email', message }]);
    }
    const input = { organization, groupId, userId: member.userId };
    await perform(groupAddMember, input, actor, ports);
    return seeOther(reply, `${homeOf(organization)}/${groupId}`);
  });

  questionRoutes(door, '/groups/:groupId/delete', manages, {
    async ask({ organization, actor }, { params: { groupId = '' } }) {
      const { items } = await perform(groupList, { organization }, actor, ports);
      const group = items.find(({ id }) => id === groupId);
      if (!group) throw notFound('group');
      return {
        heading: `Delete the group ${group.name}?`,
        consequences: ['The people in it stay members of the organization.'],
        verb: 'Delete the group',
        cancel: `${homeOf(organization)}/${groupId}`,
        crumbs: [{ text: 'Groups', href: homeOf(organization) }, { text: group.name }],
      };
    },
    async act({ organization, actor }, { params: { groupId = '' } }) {
      await perform(groupDelete, { organization, groupId }, actor, ports);
      return homeOf(organization);
    },
  });
}
