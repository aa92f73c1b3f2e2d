import { groupList } from '#administration/group-operations';
import { invitationCreate } from '#administration/invitation-operations';
import { perform } from '#administration/perform';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import type { FastifyReply } from 'fastify';
import { checkedValues } from './checked-values.ts';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { invitedPage, invitePage, type TypedInvitation } from './invite-pages.ts';
import { refusedForm } from './refused-form.ts';
import { roleOptions } from './role-words.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

/** `/people/invite`: makes a one-time link, and shows it this once. */
export function inviteRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const needs = { permission: 'people.manage', section: 'people' } as const;
  const form = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    typed: TypedInvitation,
    errors: FieldError[],
  ) => {
    const { organization, actor, may } = visit;
    const home = `${dashboardPath(organization)}/people`;
    const { items } = await perform(groupList, { organization }, actor, ports);
    const data = {
      typed,
      roles: roleOptions(typed.role, may('owners.manage')),
      groups: items.map(({ id, name }) => ({
        value: id,
        text: name,
        help: '',
        risk: '',
        isChosen: typed.groupIds.includes(id),
      })),
      action: `${home}/invite`,
      cancel: home,
      errors,
    };
    const status = errors.length > 0 ? 422 : 200;
    const crumbs = [{ text: 'People', href: home }, { text: 'Invite somebody' }];
    return sendDashboardPage(reply, visit, invitePage, data, { crumbs, status });
  };

  door.get('/people/invite', needs, (visit, _request, reply) =>
    form(reply, visit, { note: '', role: 'member', groupIds: [] }, []),
  );

  door.post('/people/invite', needs, async (visit, sent, _request, reply) => {
    const { organization, actor } = visit;
    const groupIds = checkedValues(sent, 'group');
    const typed = { note: sent.get('note') ?? '', role: sent.get('role') ?? '', groupIds };
    try {
      const made = await perform(invitationCreate, { organization, ...typed }, actor, ports);
      const secret = {
        label: 'Invitation link',
        secret: base + made.path,
        beside: [],
        configurations: [],
        keep: 'Sent to the person, or kept until it is.',
        done: `${dashboardPath(organization)}/people`,
      };
      const crumbs = [{ text: 'People', href: secret.done }, { text: 'Invitation link' }];
      return sendDashboardPage(reply, visit, invitedPage, { secret }, { crumbs });
    } catch (refusal) {
      const labels = {
        note: { field: 'note', label: 'The note' },
        role: { field: 'role', label: 'The role' },
        groupIds: { field: 'group', label: 'The list of groups' },
      };
      return form(reply, visit, typed, refusedForm(refusal, labels));
    }
  });
}
