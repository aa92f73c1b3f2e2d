import type { Page } from '#pages/page';
import type { Table } from '#pages/table';

/** The part of the people that was asked for, and who is invited. */
export interface PeoplePageData {
  readonly lead: string;
  readonly action: { readonly text: string; readonly href: string } | undefined;
  readonly tabs: object;
  readonly notice: string | undefined;
  readonly filter: { readonly path: string; readonly text: string };
  readonly people: Table;
  /** Where those that follow are. */
  readonly next: string | undefined;
  /** The invitations that nobody has taken; `undefined` for who may not see them. */
  readonly invitations: Table | undefined;
}

/** The people of an organization, and the invitations that are out. */
export const peoplePage: Page<PeoplePageData> = {
  title: () => 'People',
  width: 'table',
  template: `<%~ include('@heading', { heading: 'People', lead: it.lead, badges: [], action: it.action }) %>
<%~ include('@subnav', it.tabs) %>
<%~ include('@notice', { text: it.notice }) %>
<form class="filter" method="get" action="<%= it.filter.path %>" role="search">
<label class="unseen" for="filter">Address contains</label>
<input id="filter" name="filter" type="search" value="<%= it.filter.text %>" placeholder="Address contains" dir="auto" autocomplete="off">
<button>Show</button>
</form>
<%~ include('@table', it.people) %>
<% if (it.next) { %><nav class="pager" aria-label="Pages"><a class="button" rel="next" href="<%= it.next %>">Next</a></nav><% } %>
<% if (it.invitations) { %>
<section class="section" aria-labelledby="invitations-heading">
<h2 id="invitations-heading">Invitations that are out</h2>
<%~ include('@table', it.invitations) %>
</section>
<% } %>`,
};
