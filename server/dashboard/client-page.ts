import type { EpochSeconds } from '#clock/clock';
import type { Fact } from '#pages/fact';
import type { Page } from '#pages/page';
import type { ScopeSentence } from '#pages/scope-sentence';
import type { Badge, Table } from '#pages/table';
import { renewedPart } from './list-page.ts';

/** How a client stands; `here` is the path of the page, those in `manage` where it is changed. */
export interface ClientPageData {
  readonly heading: string;
  readonly badges: readonly Badge[];
  readonly notice: string | undefined;
  readonly clientId: string;
  readonly facts: readonly Fact[];
  readonly scopes: readonly ScopeSentence[];
  readonly redirectUris: readonly string[];
  /** `undefined` for a client that proves itself by keys of its own. */
  readonly secrets: Table | undefined;
  /** What may be done to it; `undefined` where nothing may. */
  readonly manage:
    | { readonly change: string; readonly rotate: string | undefined; readonly revoke: string }
    | undefined;
  readonly here: string;
  readonly now: EpochSeconds;
}

/** An OAuth client: what it may do, where it returns to, and its secrets. */
export const clientPage: Page<ClientPageData> = {
  title: ({ heading }) => heading,
  width: 'table',
  template: `<%~ include('@heading', { heading: it.heading, lead: '', badges: it.badges, action: it.manage && it.manage.rotate ? { text: 'Rotate secret', href: it.manage.rotate } : undefined }) %>
<%~ include('@notice', { text: it.notice }) %>
<p class="copied"><code><%= it.clientId %></code><button type="button" data-copy="<%= it.clientId %>" aria-label="Copy the client id" hidden>Copy</button></p>
${renewedPart}
<%~ include('@facts', { facts: it.facts, now: it.now }) %>
<% if (it.secrets) { %><h2>Secrets</h2><%~ include('@table', it.secrets) %><% } %>
</div>
<section class="section" aria-labelledby="scopes-heading">
<h2 id="scopes-heading">The most it may ever do</h2>
<ul class="rows"><% for (const { text, risk } of it.scopes) { %><li><div><%= text %></div><% if (risk) { %><span class="badge care">take care</span><% } %></li><% } %></ul>
<h2>Redirect URIs</h2>
<% if (it.redirectUris.length === 0) { %><p class="help">None: it acts for itself, and never asks people for their consent.</p><% } else { %>
<ul class="rows"><% for (const uri of it.redirectUris) { %><li><code><%= uri %></code></li><% } %></ul><% } %>
<% if (it.manage) { %><div class="actions"><a class="button" href="<%= it.manage.change %>">Change</a><a class="button danger" href="<%= it.manage.revoke %>" data-question>Revoke</a></div><% } %>
</section>`,
};
