import type { EpochSeconds } from '#clock/clock';
import type { ProxyReference } from '#download/proxy-reference';
import type { AssistantConfiguration } from '#pages/assistant-configurations';
import type { Fact } from '#pages/fact';
import type { Page } from '#pages/page';
import type { Badge } from '#pages/table';
import type { Tab } from './list-page.ts';

/** A server, and the ways to connect to it; `endpoint` is its whole URL. */
export interface ServerPageData {
  readonly heading: string;
  readonly badges: readonly Badge[];
  readonly description: string;
  readonly tabs: { readonly label: string; readonly entries: readonly Tab[] };
  readonly notice: string | undefined;
  readonly isDisabled: boolean;
  /** Where it is enabled again, for who may. */
  readonly settings: string | undefined;
  readonly endpoint: string;
  readonly facts: readonly Fact[];
  /** Connecting by sign-in: no secret is in them. */
  readonly configurations: readonly AssistantConfiguration[];
  /** Where the proxy comes from that they run. */
  readonly proxy: ProxyReference;
  /** What can be made to connect by, for who may. */
  readonly makes: readonly {
    readonly text: string;
    readonly help: string;
    readonly href: string;
  }[];
  readonly now: EpochSeconds;
}

/** A server: its endpoint, how to connect to it, and what it is. */
export const serverPage: Page<ServerPageData> = {
  title: ({ heading }) => heading,
  width: 'table',
  template: `<%~ include('@heading', { heading: it.heading, lead: it.description, badges: it.badges, action: undefined }) %>
<%~ include('@subnav', it.tabs) %>
<% if (it.isDisabled) { %><p class="notice warning" role="status">The server is disabled and answers nobody. <% if (it.settings) { %>Enable it under <a href="<%= it.settings %>">Settings</a>.<% } else { %>Ask an owner or an admin to enable it.<% } %></p>
<% } else { %><%~ include('@notice', { text: it.notice }) %><% } %>
<section class="group" aria-labelledby="endpoint-heading">
<h2 id="endpoint-heading">Endpoint</h2>
<p class="copied"><code><%= it.endpoint %></code><button type="button" data-copy="<%= it.endpoint %>" aria-label="Copy the endpoint" hidden>Copy</button></p>
<%~ include('@facts', { facts: it.facts, now: it.now }) %>
</section>
<section class="section" aria-labelledby="connect-heading">
<h2 id="connect-heading">Connect an assistant as yourself</h2>
<p class="help">Without any secret: the assistant opens the browser, you sign in and allow it. What it may do ends with your role here.</p>
<%~ include('@tabs', { configurations: it.configurations }) %>
<%~ include('@proxy', { proxy: it.proxy }) %>
</section>
<% if (it.makes.length > 0) { %>
<section class="section" aria-labelledby="make-heading">
<h2 id="make-heading">Connect an application by a credential of its own</h2>
<ul class="rows">
<% for (const { text, help, href } of it.makes) { %><li><div><%= help %></div><a class="button" href="<%= href %>"><%= text %></a></li><% } %>
</ul>
</section>
<% } %>`,
};
