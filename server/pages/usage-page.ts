import type { Page } from './page.ts';
import type { Table } from './table.ts';

interface Choice {
  readonly text: string;
  readonly href: string;
  readonly isHere: boolean;
}

export interface UsagePageData {
  readonly heading: string;
  readonly lead: string;
  readonly ranges: readonly Choice[];
  readonly kinds: readonly Choice[];
  /** Back to everything, from one thing. */
  readonly back: { readonly text: string; readonly href: string } | undefined;
  /** Figures of `usagePlots`; none where nobody called. */
  readonly plots: readonly string[];
  /** Rows of `usageNumbers`, the head first. */
  readonly numbers: readonly (readonly string[])[];
  readonly subjects: Table | undefined;
  readonly csv: string;
}

/** How often and how well an organization is called. */
export const usagePage: Page<UsagePageData> = {
  title: ({ heading }) => heading,
  width: 'table',
  template: `<%~ include('@heading', { heading: it.heading, lead: it.lead }) %>
<div class="choices">
<%~ include('@subnav', { label: 'Time', entries: it.ranges }) %>
<% if (it.back) { %><a href="<%= it.back.href %>"><%= it.back.text %></a>
<% } else { %><%~ include('@subnav', { label: 'Counted for each', entries: it.kinds }) %><% } %>
</div>
<% if (it.plots.length === 0) { %>
<div class="empty"><p>No calls in this time. Calls appear here within seconds of being made.</p></div>
<% } else { %>
<div class="plots"><% for (const plot of it.plots) { %><%~ plot %><% } %></div>
<% if (it.subjects) { %><%~ include('@table', it.subjects) %><% } %>
<details>
<summary>The same numbers over time</summary>
<div class="numbers" tabindex="0" role="region" aria-label="Numbers over time">
<% const [head, ...rows] = it.numbers %>
<table>
<caption class="unseen">Numbers over time</caption>
<thead><tr><% for (const text of head) { %><th scope="col" dir="auto"><%= text %></th><% } %></tr></thead>
<tbody><% for (const [time, ...values] of rows) { %><tr><th scope="row"><%= time %></th><% for (const value of values) { %><td><%= value %></td><% } %></tr><% } %></tbody>
</table>
</div>
</details>
<p><a href="<%= it.csv %>">Download as CSV</a> <span class="soft">Times are UTC. Latencies are at most a tenth off.</span></p>
<% } %>`,
};
