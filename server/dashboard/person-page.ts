import type { EpochSeconds } from '#clock/clock';
import type { Page } from '#pages/page';

/** A person of an organization, and what can be done about them. */
export interface PersonPageData {
  readonly email: string;
  readonly role: string;
  readonly groups: readonly string[];
  readonly secondFactor: boolean;
  /** When they last came; `null` for never. */
  readonly seenAt: EpochSeconds | null;
  readonly now: EpochSeconds;
  readonly notice: string | undefined;
  /** `undefined` for who may not change it. */
  readonly roles: readonly object[] | undefined;
  /** Path of the page; what can be done is below it. */
  readonly home: string;
  readonly questions: readonly {
    readonly path: string;
    readonly text: string;
    readonly help: string;
  }[];
}

/** One person of an organization: how they stand, their role, and what else can be done. */
export const personPage: Page<PersonPageData> = {
  title: ({ email }) => email,
  width: 'text',
  template: `<%~ include('@heading', { heading: it.email, lead: '', badges: [{ text: it.role, tone: 'plain' }], action: undefined }) %>
<%~ include('@notice', { text: it.notice }) %>
<dl class="facts beside">
<div><dt>Groups</dt><dd><%= it.groups.join(', ') || 'none' %></dd></div>
<div><dt>Second factor</dt><dd><%= it.secondFactor ? 'set up' : 'none' %></dd></div>
<div><dt>Last here</dt><dd><% if (it.seenAt) { %><%~ include('@time', { at: it.seenAt, now: it.now }) %><% } else { %>never<% } %></dd></div>
</dl>
<% if (it.roles) { %>
<section class="section" aria-labelledby="role-heading">
<h2 id="role-heading">Role</h2>
<form method="post" action="<%= it.home %>/role">
<%~ include('@guard', it.frame) %>
<%~ include('@choices', { name: 'role', legend: 'What they are here', options: it.roles, error: '', help: '' }) %>
<div class="actions"><button class="primary">Change the role</button></div>
</form>
</section>
<section class="section" aria-labelledby="more-heading">
<h2 id="more-heading">More</h2>
<ul class="rows">
<% for (const { path, text, help } of it.questions) { %>
<li><div><%= help %></div><a class="button danger" href="<%= it.home %>/<%= path %>" data-question><%= text %></a></li>
<% } %>
</ul>
</section>
<% } %>`,
};
