import type { Page } from './page.ts';
import type { Table } from './table.ts';

export interface OverviewPageData {
  readonly heading: string;
  readonly lead: string;
  readonly action: { readonly text: string; readonly href: string } | undefined;
  /** Figures of calls and errors over the last day; none where nobody called. */
  readonly plots: readonly string[];
  readonly usage: string;
  readonly endpoints: Table;
  /** Where all servers are, if not all are here. */
  readonly servers: { readonly text: string; readonly href: string } | undefined;
  readonly keys: Table;
  /** How many more there are. */
  readonly moreKeys: string | undefined;
  /** For who may read the audit log. */
  readonly refusals: Table | undefined;
}

/** Where an organization begins: what it serves, how that goes, and what wants looking after. */
export const overviewPage: Page<OverviewPageData> = {
  title: ({ heading }) => heading,
  width: 'table',
  template: `<%~ include('@heading', { heading: it.heading, lead: it.lead, badges: [], action: it.action }) %>
<section class="group" aria-labelledby="calls-heading">
<h2 id="calls-heading">The last day</h2>
<% if (it.plots.length === 0) { %><p class="lead">No calls. They appear here within seconds of being made.</p>
<% } else { %>
<div class="plots beside"><% for (const plot of it.plots) { %><%~ plot %><% } %></div>
<p><a href="<%= it.usage %>">Usage in numbers</a> <span class="soft">Times are UTC.</span></p>
<% } %>
</section>
<section class="section" aria-labelledby="endpoints-heading">
<h2 id="endpoints-heading">Endpoints</h2>
<%~ include('@table', it.endpoints) %>
<% if (it.servers) { %><p><a href="<%= it.servers.href %>"><%= it.servers.text %></a></p><% } %>
</section>
<section class="section" aria-labelledby="keys-heading">
<h2 id="keys-heading">API keys to rotate</h2>
<% if (it.keys.rows.length === 0) { %><p class="lead"><%= it.keys.empty.text %></p><% } else { %><%~ include('@table', it.keys) %><% } %>
<% if (it.moreKeys) { %><p class="help"><%= it.moreKeys %></p><% } %>
</section>
<% if (it.refusals) { %>
<section class="section" aria-labelledby="refusals-heading">
<h2 id="refusals-heading">Refused lately</h2>
<% if (it.refusals.rows.length === 0) { %><p class="lead"><%= it.refusals.empty.text %></p><% } else { %><%~ include('@table', it.refusals) %><% } %>
</section>
<% } %>`,
};
