import type { FastifyReply } from 'fastify';

import { groupList } from '#admin/groups';
import { invitationCreate } from '#admin/invitations';
import { perform } from '#admin/operation';
import {
  checkboxes,
  errorOf,
  errorSummary,
  formActions,
  postForm,
  radioButtons,
  textField,
  type ExplainedChoice,
  type FieldError,
} from '#web/forms';
import { html, type Html } from '#web/html';
import { dashboardPath, layout, pageHeading, type Frame } from '#web/layout';
import { secretPanel, type OneTimeSecret } from '#web/one-time-secret';
import { checkedValues, refusedForm } from './forms.ts';
import type { DashboardGuard, DashboardVisit } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import { roleOptions } from './people.ts';
import type { DashboardOptions } from './ports.ts';

/** `/people/invite`: creates a one-time link and shows it once. */
export function invitationRoutes(guard: DashboardGuard, { base, ports }: DashboardOptions): void {
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
    const crumbs = [{ text: 'People', href: home }, { text: 'Invite a person' }];
    return sendDashboardPage(reply, visit, invitePage, data, { crumbs, status });
  };

  guard.get('/people/invite', needs, (visit, _request, reply) =>
    form(reply, visit, { note: '', role: 'member', groupIds: [] }, []),
  );

  guard.post('/people/invite', needs, async (visit, sent, _request, reply) => {
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

/** An invitation as it was entered. */
interface TypedInvitation {
  readonly note: string;
  readonly role: string;
  readonly groupIds: readonly string[];
}

interface InvitePageData {
  readonly typed: TypedInvitation;
  readonly roles: readonly ExplainedChoice[];
  readonly groups: readonly ExplainedChoice[];
  readonly action: string;
  readonly cancel: string;
  readonly errors: readonly FieldError[];
}

/** Creates an invitation. */
function invitePage(data: InvitePageData, frame: Frame): Html {
  const { typed, roles, groups, action, cancel, errors } = data;
  const title = errors.length > 0 ? 'Not invited yet' : 'Invite a person';
  const lead =
    'You get a link that works once, for seven days. We send no e-mail: give it to them yourself.';
  const noteField = textField({
    name: 'note',
    label: 'For whom',
    value: typed.note,
    error: errorOf(errors, 'note'),
    optional: true,
    focus: errors.length === 0,
    attributes: html`maxlength="200" autocomplete="off"`,
    help: 'For your own list. Anyone with the link can use it.',
  });
  const roleField = radioButtons({
    name: 'role',
    legend: 'Role',
    options: roles,
    error: errorOf(errors, 'role'),
  });
  const groupsField = checkboxes({
    name: 'group',
    legend: 'Groups',
    options: groups,
    error: errorOf(errors, 'group'),
  });
  const fields = html`${noteField} ${roleField} ${groups.length > 0 && groupsField}
${formActions('Make the link', cancel)}`;
  const content = html`${pageHeading({ heading: 'Invite a person', lead })}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, fields)}`;
  return layout({ title, width: 'form' }, frame, content);
}

/** Shows the link of an invitation once. */
function invitedPage({ secret }: { readonly secret: OneTimeSecret }, frame: Frame): Html {
  const lead = 'Give it to the person by a way that only they read. It works once, for seven days.';
  const content = html`${pageHeading({ heading: 'Invitation link', lead })}
${secretPanel(secret)}`;
  return layout({ title: 'Invitation link', width: 'text' }, frame, content);
}
