import type { EpochSeconds } from '#clock/clock';
import type { Fact } from '#pages/fact';
import type { Page } from '#pages/page';
import type { ScopeSentence } from '#pages/scope-sentence';
import type { Badge } from '#pages/table';
import { renewedPart } from './list-page.ts';

/** How a key stands; `here` is the path of the page, those in `manage` where it is changed. */
export interface KeyPageData {
  readonly heading: string;
  readonly badges: readonly Badge[];
  readonly keyId: string;
  readonly facts: readonly Fact[];
  readonly scopes: readonly ScopeSentence[];
  /** What may be done to it; `undefined` where nothing may. */
  readonly manage: { readonly rotate: string; readonly revoke: string } | undefined;
  readonly here: string;
  readonly now: EpochSeconds;
}

/** An API key: what it may do, when it was used, and the id by which the audit log calls it. */
export const keyPage: Page<KeyPageData> = {
  title: ({ heading }) => heading,
  width: 'table',
  template: `<%~ include('@heading', { heading: it.heading, lead: '', badges: it.badges, action: it.manage ? { text: 'Rotate', href: it.manage.rotate } : undefined }) %>
<p class="copied"><code><%= it.keyId %></code><button type="button" data-copy="<%= it.keyId %>" aria-label="Copy the id of the key" hidden>Copy</button></p>
${renewedPart}
<%~ include('@facts', { facts: it.facts, now: it.now }) %>
</div>
<section class="section" aria-labelledby="scopes-heading">
<h2 id="scopes-heading">What it may do</h2>
<ul class="rows"><% for (const { text, risk } of it.scopes) { %><li><div><%= text %></div><% if (risk) { %><span class="badge care">take care</span><% } %></li><% } %></ul>
<% if (it.manage) { %><div class="actions"><a class="button danger" href="<%= it.manage.revoke %>" data-question>Revoke</a></div><% } %>
</section>`,
};
