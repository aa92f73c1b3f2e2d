import type { FieldError, Page } from '#pages/page';
import type { ShownSecret } from '#pages/secret-pieces';

/** An invitation as it was typed. */
export interface TypedInvitation {
  readonly note: string;
  readonly role: string;
  readonly groupIds: readonly string[];
}

/** What the form shows. */
export interface InvitePageData {
  readonly typed: TypedInvitation;
  readonly roles: object;
  readonly groups: readonly object[];
  readonly action: string;
  readonly cancel: string;
  readonly errors: readonly FieldError[];
}

/** The form that asks for an invitation. */
export const invitePage: Page<InvitePageData> = {
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

/** The link that was made, this once. */
export const invitedPage: Page<{ readonly secret: ShownSecret }> = {
  title: () => 'Invitation link',
  width: 'text',
  template: `<%~ include('@heading', { heading: 'Invitation link', badges: [], action: undefined,
  lead: 'Give it to the person by a way that only they read. It works once, for seven days.' }) %>
<%~ include('@secret', { secret: it.secret }) %>`,
};
