import type { Page } from '#pages/page';
import type { Table } from '#pages/table';

interface Choice {
  readonly value: string;
  readonly text: string;
  readonly isChosen: boolean;
}

/** What of the audit log was asked for, and what there is. */
export interface AuditPageData {
  /** Path of the page, without a query. */
  readonly path: string;
  /** The filter as it was typed; days as `2026-05-03`. */
  readonly typed: Readonly<Record<'actor' | 'target' | 'from' | 'until', string>>;
  readonly actions: readonly Choice[];
  readonly outcomes: readonly Choice[];
  readonly table: Table;
  /** Where the older ones are. */
  readonly next: string | undefined;
  readonly exports: readonly { readonly text: string; readonly href: string }[];
}

/** The audit log of an organization, narrowed, and as a file. */
export const auditPage: Page<AuditPageData> = {
  title: () => 'Audit log',
  width: 'table',
  template: `<%~ include('@heading', { heading: 'Audit log', badges: [], action: undefined, lead: 'What happened here, for good: nobody can change or remove an entry.' }) %>
<form class="filter many" method="get" action="<%= it.path %>" role="search">
<label class="unseen" for="actor">Who, by address</label>
<input id="actor" name="actor" value="<%= it.typed.actor %>" placeholder="Who, by address" autocomplete="off">
<label class="unseen" for="action">What</label>
<select id="action" name="action"><% for (const { value, text, isChosen } of it.actions) { %><option value="<%= value %>" <% if (isChosen) { %>selected<% } %>><%= text %></option><% } %></select>
<label class="unseen" for="target">On what, exactly</label>
<input id="target" name="target" value="<%= it.typed.target %>" placeholder="On what, exactly" autocomplete="off">
<label class="unseen" for="outcome">How it ended</label>
<select id="outcome" name="outcome"><% for (const { value, text, isChosen } of it.outcomes) { %><option value="<%= value %>" <% if (isChosen) { %>selected<% } %>><%= text %></option><% } %></select>
<div class="days">
<label class="day" for="from">From <input id="from" name="from" type="date" value="<%= it.typed.from %>"></label>
<label class="day" for="until">to <input id="until" name="until" type="date" value="<%= it.typed.until %>"></label>
<button>Show</button>
</div>
</form>
<%~ include('@table', it.table) %>
<nav class="pager" aria-label="Pages and export">
<% if (it.next) { %><a class="button" rel="next" href="<%= it.next %>">Older</a><% } %>
<% for (const { text, href } of it.exports) { %><a class="button" href="<%= href %>"><%= text %></a><% } %>
</nav>`,
};
