import type { EpochSeconds } from '#clock/clock';
import type { Fact } from '#pages/fact';
import type { Page } from '#pages/page';

/** How the person's account stands there; `action` connects it, `disconnect` is the question that ends it. */
export interface OwnConnectionData {
  readonly heading: string;
  readonly tabs: object;
  readonly notice: string | undefined;
  /** What went wrong on the way back from the authorization server. */
  readonly problem: string | undefined;
  readonly isNeeded: boolean;
  readonly state: 'none' | 'connected' | 'ended';
  /** The host that the person is sent to. */
  readonly host: string;
  readonly email: string;
  readonly facts: readonly Fact[];
  readonly action: string;
  readonly disconnect: string;
  readonly now: EpochSeconds;
}

/** A person's own account at the MCP server behind an endpoint. */
export const ownConnectionPage: Page<OwnConnectionData> = {
  title: ({ heading }) => `Your account at ${heading}`,
  width: 'text',
  template: `<%~ include('@heading', { heading: it.heading, action: undefined, lead: 'Your own account at the MCP server behind this endpoint.',
  badges: it.state === 'connected' ? [{ text: 'Connected', tone: 'good' }] : it.state === 'ended' ? [{ text: 'Connect again', tone: 'care' }] : [] }) %>
<%~ include('@subnav', it.tabs) %>
<%~ include('@notice', { text: it.notice }) %>
<% if (it.problem) { %><div class="summary" role="alert"><p><strong>Not connected.</strong></p><p><%= it.problem %></p></div><% } %>
<% if (!it.isNeeded) { %><div class="empty"><p>This server needs no account of yours. Call it, or try it.</p></div>
<% } else { %>
<section class="group" aria-labelledby="own-heading">
<h2 id="own-heading"><%= it.state === 'connected' ? 'Your account is connected' : it.state === 'ended' ? 'Your account has to be connected again' : 'Connect your account' %></h2>
<ul class="consequences">
<% if (it.state === 'connected') { %>
<li>Calls that you make to this server, or let applications make for you, use it. Nobody else’s do.</li>
<li>Connecting another account disconnects this one first.</li>
<% } else { %>
<% if (it.state === 'ended') { %><li><%= it.host %> takes the former consent no longer.</li><% } %>
<li>You sign in at <%= it.host %> and consent there. This server never sees your password.</li>
<li>Calls that you make to this server, or let applications make for you, then use that account. Nobody else’s do.</li>
<li>The tokens are kept encrypted, and no application ever gets them. You can disconnect here at any time.</li>
<% } %>
</ul>
<%~ include('@facts', { facts: it.facts, now: it.now }) %>
<div class="actions">
<form method="post" action="<%= it.action %>">
<%~ include('@guard', it.frame) %>
<button class="<%= it.state === 'connected' ? '' : 'primary' %>"><%= it.state === 'none' ? 'Connect your account' : it.state === 'ended' ? 'Connect again' : 'Connect another account' %></button>
</form>
<% if (it.state !== 'none') { %><a class="button danger" href="<%= it.disconnect %>" data-question>Disconnect</a><% } %>
</div>
</section>
<% } %>`,
};
