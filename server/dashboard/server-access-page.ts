import type { Page } from '#pages/page';

/** The groups there are, and which of them a server is kept to. */
export interface ServerAccessPageData {
  readonly name: string;
  readonly tabs: object;
  readonly notice: string | undefined;
  readonly action: string;
  readonly groups: readonly object[];
  readonly isOpen: boolean;
  readonly mayManage: boolean;
}

/** Whom a server is open to: every member, or some groups. */
export const serverAccessPage: Page<ServerAccessPageData> = {
  title: ({ name }) => `Access of ${name}`,
  width: 'text',
  template: `<%~ include('@heading', { heading: it.name, badges: [], action: undefined,
  lead: it.isOpen ? 'Every member of the organization may use this server.' : 'Only the chosen groups may use this server, owners included.' }) %>
<%~ include('@subnav', it.tabs) %>
<%~ include('@notice', { text: it.notice }) %>
<% if (it.groups.length === 0) { %><div class="empty"><p>There are no groups yet. Make one under Groups to keep this server to it.</p></div>
<% } else { %>
<form method="post" action="<%= it.action %>">
<%~ include('@guard', it.frame) %>
<%~ include('@checks', { name: 'group', legend: 'Groups that may use it', options: it.groups, error: '', help: 'None chosen opens it to every member. Whoever is outside loses it at once; keys and clients without a person are not asked.' }) %>
<% if (it.mayManage) { %><div class="actions"><button class="primary">Save</button></div><% } %>
</form>
<% } %>`,
};
