import { groupList } from '#administration/group-operations';
import { invitationCreate } from '#administration/invitation-operations';
import { perform } from '#administration/perform';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError, Page } from '#pages/page';
import type { ShownSecret } from '#pages/secret-pieces';
import type { FastifyReply } from 'fastify';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { refusedForm } from './refused-form.ts';
import { roleOptions } from './role-words.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

interface Typed {
  readonly note: string;
  readonly role: string;
  readonly groupIds: readonly string[];
}

interface InvitePageData {
  readonly typed: Typed;
  readonly roles: object;
  readonly groups: readonly object[];
  readonly action: string;
  readonly cancel: string;
  readonly errors: readonly FieldError[];
}

const invitePage: Page<InvitePageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not invited yet' : 'Invite somebody'),
  width: 'form',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: 'Invite somebody', badges: [], action: undefined,
  lead: 'You get a link that works once, for seven days. We send no e-mail: give it to them yourself.' }) %>
<%~ include('@summary', it) %>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'note', label: 'For whom', value: it.typed.note, error: wrong('note'), optional: true, focus: it.errors.length === 0,
  attributes: 'maxlength="200" autocomplete="off"', help: 'For your own list; whoever has the link may use it.' }) %>
<%~ include('@choices', { name: 'role', legend: 'Role', options: it.roles, error: wrong('role'), help: '' }) %>
<% if (it.groups.length > 0) { %><%~ include('@checks', { name: 'group', legend: 'Groups', options: it.groups, error: wrong('group'), help: '' }) %><% } %>
<%~ include('@form-actions', { text: 'Make the link', cancel: it.cancel }) %>
</form>`,
};

const invitedPage: Page<{ readonly secret: ShownSecret }> = {
  title: () => 'Invitation link',
  width: 'text',
  template: `<%~ include('@heading', { heading: 'Invitation link', badges: [], action: undefined,
  lead: 'Give it to the person by a way that only they read. It works once, for seven days.' }) %>
<%~ include('@secret', { secret: it.secret }) %>`,
};

/** `/people/invite`: makes a one-time link, and shows it this once. */
export function inviteRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const needs = { permission: 'people.manage', section: 'people' } as const;
  const form = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    typed: Typed,
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
    const groupIds = [...sent.keys()]
      .filter((name) => name.startsWith('group.'))
      .map((name) => name.slice('group.'.length));
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
