import type { EpochSeconds } from '#clock/clock';
import type { ProxyReference } from '#download/proxy-reference';
import type { AgentStep } from '#pages/agent-steps';
import type { Fact } from '#pages/fact';
import type { Page } from '#pages/page';
import type { Badge, Table } from '#pages/table';
import { renewedPart } from './list-page.ts';

/** How an agent stands; `here` is the path of the page, `manage` where it is changed, for who may. */
export interface AgentPageData {
  readonly heading: string;
  readonly badges: readonly Badge[];
  readonly notice: string | undefined;
  readonly facts: readonly Fact[];
  readonly keys: Table;
  readonly servers: Table;
  /** How it comes to run, while it does not, for who looks after it. */
  readonly steps: readonly AgentStep[] | undefined;
  /** Where the proxy comes from that they run. */
  readonly proxy: ProxyReference;
  readonly manage: { readonly rotate: string; readonly revoke: string } | undefined;
  readonly here: string;
  readonly now: EpochSeconds;
}

/** An on-premise agent: when it was last there, its keys, and the servers that it serves. */
export const agentPage: Page<AgentPageData> = {
  title: ({ heading }) => heading,
  width: 'table',
  template: `<%~ include('@heading', { heading: it.heading, lead: '', badges: it.badges, action: it.manage ? { text: 'Rotate key', href: it.manage.rotate } : undefined }) %>
<%~ include('@notice', { text: it.notice }) %>
${renewedPart}
<%~ include('@facts', { facts: it.facts, now: it.now }) %>
<h2>Keys</h2>
<%~ include('@table', it.keys) %>
<h2>Servers that it serves</h2>
<%~ include('@table', it.servers) %>
<% if (it.steps) { %>
<section class="section" aria-labelledby="steps-heading"><h2 id="steps-heading">Run it</h2>
<%~ include('@agent-steps', { steps: it.steps }) %>
<%~ include('@proxy', { proxy: it.proxy }) %></section>
<% } %>
</div>
<% if (it.manage) { %><div class="actions"><a class="button danger" href="<%= it.manage.revoke %>" data-question>Revoke the agent</a></div><% } %>`,
};
