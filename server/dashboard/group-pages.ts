import type { FieldError, Page } from '#pages/page';
import type { Table } from '#pages/table';

/** The groups there are, and a name that was typed for another. */
export interface GroupsPageData {
  readonly table: Table;
  readonly mayManage: boolean;
  readonly action: string;
  readonly name: string;
  readonly errors: readonly FieldError[];
}

/** The groups of an organization, and making one. */
export const groupsPage: Page<GroupsPageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not created yet' : 'Groups'),
  width: 'table',
  template: `<%~ include('@heading', { heading: 'Groups', badges: [], action: undefined,
  lead: 'A server can be kept to some groups; then nobody else may use it, owners included. Choose them on the page of the server, under Access.' }) %>
<%~ include('@summary', it) %>
<%~ include('@table', it.table) %>
<% if (it.mayManage) { %>
<section class="section narrow" aria-labelledby="new-heading">
<h2 id="new-heading">New group</h2>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'name', label: 'Name', value: it.name, error: it.errors[0]?.message || '', attributes: 'maxlength="100" autocomplete="off"', help: '', focus: false }) %>
<div class="actions"><button class="primary">Create group</button></div>
</form>
</section>
<% } %>`,
};

/** A group, who is in it, and what is wrong with what was typed. */
export interface GroupPageData {
  readonly name: string;
  readonly servers: readonly string[];
  readonly people: readonly {
    readonly id: string;
    readonly email: string;
    readonly source: string;
  }[];
  readonly externalNames: readonly string[];
  readonly home: string;
  readonly mayManage: boolean;
  readonly errors: readonly FieldError[];
}

/** One group: who is in it and why, what it opens, and the provider's groups that count as it. */
export const groupPage: Page<GroupPageData> = {
  title: ({ name, errors }) => (errors.length > 0 ? 'Not changed' : name),
  width: 'text',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: it.name, lead: it.servers.length > 0 ? 'Opens ' + it.servers.join(', ') : 'No server is kept to this group.', badges: [], action: undefined }) %>
<%~ include('@summary', it) %>
<section class="section" aria-labelledby="people-heading">
<h2 id="people-heading">People</h2>
<ul class="rows">
<% for (const { id, email, source } of it.people) { %>
<li><div dir="auto"><%= email %></div>
<% if (source === 'provider') { %><span class="badge">by the provider</span>
<% } else if (it.mayManage) { %><form method="post" action="<%= it.home %>/remove-person">
<%~ include('@guard', it.frame) %><input type="hidden" name="userId" value="<%= id %>">
<button class="danger" aria-label="Take <%= email %> out">Take out</button></form><% } %></li>
<% } %>
<% if (it.people.length === 0) { %><li>Nobody yet.</li><% } %>
</ul>
<% if (it.mayManage) { %><form method="post" action="<%= it.home %>/add-person" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'email', label: 'Add a member by address', type: 'email', value: '', error: wrong('email'), autocomplete: 'off', help: '', focus: false }) %>
<div class="actions"><button>Add</button></div>
</form><% } %>
</section>
<section class="section" aria-labelledby="mapping-heading">
<h2 id="mapping-heading">From the OpenID provider</h2>
<p class="help">Whoever is in one of these groups there is in this one here, from their next sign-in by the provider on.</p>
<ul class="rows">
<% for (const name of it.externalNames) { %>
<li><div dir="auto"><code><%= name %></code></div><% if (it.mayManage) { %><form method="post" action="<%= it.home %>/unmap">
<%~ include('@guard', it.frame) %><input type="hidden" name="externalName" value="<%= name %>">
<button class="danger" aria-label="End the mapping of <%= name %>">End</button></form><% } %></li>
<% } %>
<% if (it.externalNames.length === 0) { %><li>None.</li><% } %>
</ul>
<% if (it.mayManage) { %><form method="post" action="<%= it.home %>/map" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'externalName', label: 'Name of the group there', value: '', error: wrong('externalName'), attributes: 'maxlength="256" autocomplete="off" spellcheck="false"', help: 'As the provider sends it, letter by letter.', focus: false, autocomplete: '' }) %>
<div class="actions"><button>Map it</button></div>
</form><% } %>
</section>
<% if (it.mayManage) { %>
<section class="section" aria-labelledby="delete-heading">
<h2 id="delete-heading">Take it out of use</h2>
<ul class="rows"><li><div>Remove it for good. Its people stay.</div><a class="button danger" href="<%= it.home %>/delete" data-question>Delete the group</a></li></ul>
</section>
<% } %>`,
};
