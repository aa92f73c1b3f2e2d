import type { EpochSeconds } from '#clock/clock';
import type { Page } from '#pages/page';
import type { Table } from '#pages/table';

/** The tools of a server, and what becomes of those that turn into others. */
export interface ToolsPageData {
  readonly name: string;
  readonly tabs: object;
  readonly notice: string | undefined;
  readonly home: string;
  /** Those that turned into others, with the lines that differ. */
  readonly changed: readonly {
    readonly name: string;
    readonly digest: string;
    readonly changedAt: EpochSeconds;
    readonly lines: readonly { readonly sign: '+' | '−' | ' '; readonly text: string }[];
  }[];
  /** How many more there are that turned into others. */
  readonly more: number;
  readonly table: Table;
  readonly choices: readonly object[];
  readonly mayManage: boolean;
  readonly now: EpochSeconds;
}

/** The tools of a server as they were accepted, and those that are others now. */
export const toolsPage: Page<ToolsPageData> = {
  title: ({ name }) => `Tools of ${name}`,
  width: 'text',
  template: `<%~ include('@heading', { heading: it.name, badges: [], action: undefined,
  lead: 'What a server says of a tool is an order to the assistant that reads it. Each tool is accepted as it is first listed; one that turns into another behind its name is shown here.' }) %>
<%~ include('@subnav', it.tabs) %>
<%~ include('@notice', { text: it.notice }) %>
<% for (const tool of it.changed) { %>
<section class="section" aria-labelledby="tool-<%= tool.digest %>">
<h2 id="tool-<%= tool.digest %>"><code dir="auto"><%= tool.name %></code> <%~ include('@badge', { text: 'changed', tone: 'care' }) %></h2>
<p>Seen <%~ include('@time', { at: tool.changedAt, now: it.now }) %>. Lines with − are gone, lines with + are new.</p>
<pre class="change"><% for (const { sign, text } of tool.lines) { %><span class="<%= sign === '+' ? 'added' : sign === '−' ? 'gone' : '' %>"><%= sign %> <%= text %></span><% } %></pre>
<% if (it.mayManage) { %><form method="post" action="<%= it.home %>/accept">
<%~ include('@guard', it.frame) %><input type="hidden" name="name" value="<%= tool.name %>"><input type="hidden" name="digest" value="<%= tool.digest %>">
<div class="actions"><button>Accept <%= tool.name %> as it is now</button></div></form><% } %>
</section>
<% } %>
<% if (it.more > 0) { %><p><%= it.more === 1 ? 'One more tool has' : it.more + ' more tools have' %> changed: the lines that differ are shown here once some of these are accepted.</p><% } %>
<%~ include('@table', it.table) %>
<% if (it.mayManage) { %>
<section class="section" aria-labelledby="rule-heading">
<h2 id="rule-heading">When a tool changes</h2>
<form method="post" action="<%= it.home %>/rule">
<%~ include('@guard', it.frame) %>
<%~ include('@choices', { name: 'changedTools', legend: 'What happens to it', options: it.choices, error: '', help: '' }) %>
<div class="actions"><button class="primary">Save</button></div>
</form>
</section>
<% } %>`,
};
