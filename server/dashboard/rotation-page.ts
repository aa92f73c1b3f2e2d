import type { EpochSeconds } from '#clock/clock';
import type { Page } from '#pages/page';
import type { ShownSecret } from '#pages/secret-pieces';
import { renewedPart } from './list-page.ts';

/** A credential that the new one replaces. */
export interface Replaced {
  readonly hint: string;
  readonly lastUsedAt: EpochSeconds | null;
  /** Where it is asked to be revoked; `undefined` once it opens nothing any more. */
  readonly revoke: string | undefined;
}

/** The new credential, and those that it is to replace. */
export interface RotationPageData {
  readonly heading: string;
  /** What is rotated, as `key`. */
  readonly what: string;
  /** Where the new one goes, in a sentence. */
  readonly update: string;
  /** What uses it first, in a sentence. */
  readonly firstUse: string;
  /** There in the answer that makes it, and never again. */
  readonly secret: ShownSecret | undefined;
  readonly made: {
    readonly hint: string;
    readonly createdAt: EpochSeconds;
    readonly lastUsedAt: EpochSeconds | null;
  };
  readonly replaced: readonly Replaced[];
  /** Where this page is without the secret. */
  readonly here: string;
  readonly back: { readonly text: string; readonly href: string };
  readonly now: EpochSeconds;
}

/** The four steps of a rotation on one page: new, update, verify, revoke; old and new count meanwhile. */
export const rotationPage: Page<RotationPageData> = {
  title: ({ heading, secret }) => (secret ? `${secret.label}, shown this once` : heading),
  width: 'text',
  template: `<%~ include('@heading', { heading: it.heading, lead: 'Old and new count until you revoke the old one.', badges: [], action: undefined }) %>
<ol class="steps">
<li class="done"><h2>New <%= it.what %></h2>
<% if (it.secret) { %><%~ include('@secret', { secret: it.secret }) %><% } else { %><p><code><%= it.made.hint %></code>, made <%~ include('@time', { at: it.made.createdAt, now: it.now }) %>. It was shown then, and nobody can show it again.</p><% } %></li>
<li><h2>Update</h2><p><%= it.update %></p></li>
</ol>
${renewedPart}
<ol class="steps going-on">
<li class="<%= it.made.lastUsedAt ? 'done' : '' %>" data-row id="row-verify"><h2>Verify</h2>
<% if (it.made.lastUsedAt) { %><p><strong>The new <%= it.what %> works.</strong> It was used <%~ include('@time', { at: it.made.lastUsedAt, now: it.now }) %>.</p>
<% } else { %><p>The new <%= it.what %> was not used yet. <%= it.firstUse %></p><p><a href="<%= it.here %>">Look again</a></p><% } %></li>
<li class="<%= it.replaced.every(({ revoke }) => !revoke) ? 'done' : '' %>" data-row id="row-revoke"><h2>Revoke the old one</h2>
<% if (it.replaced.length === 0) { %><p>There is no other <%= it.what %> in force.</p><% } %>
<ul class="rows"><% for (const { hint, lastUsedAt, revoke } of it.replaced) { %>
<li><div><code><%= hint %></code><p class="help"><% if (!revoke) { %>Opens nothing any more.<% } else if (lastUsedAt) { %>Last used <%~ include('@time', { at: lastUsedAt, now: it.now }) %>.<% if (it.made.lastUsedAt && lastUsedAt > it.made.lastUsedAt) { %> Something still uses it.<% } %><% } else { %>Never used.<% } %></p></div>
<% if (revoke) { %><a class="button danger" href="<%= revoke %>" data-question aria-label="Revoke <%= hint %>">Revoke</a><% } %></li>
<% } %></ul></li>
</ol>
</div>
<p><a class="button" href="<%= it.back.href %>"><%= it.back.text %></a></p>`,
};

/** What is going to be rotated; `action` makes the new one, `cancel` leads back. */
export interface RotationStartData {
  readonly heading: string;
  readonly what: string;
  readonly update: string;
  readonly action: string;
  readonly cancel: string;
}

/** Says what a rotation is, before its first step. */
export const rotationStartPage: Page<RotationStartData> = {
  title: ({ heading }) => heading,
  width: 'text',
  template: `<%~ include('@heading', { heading: it.heading, lead: 'Nothing stops working: old and new count until you revoke the old one.', badges: [], action: undefined }) %>
<ol class="steps">
<li><h2>New <%= it.what %></h2><p>The next page shows it once. It may do the same as the old one.</p></li>
<li><h2>Update</h2><p><%= it.update %></p></li>
<li><h2>Verify</h2><p>The page shows when the new <%= it.what %> is first used.</p></li>
<li><h2>Revoke the old one</h2><p>Once nothing uses it any more.</p></li>
</ol>
<form method="post" action="<%= it.action %>">
<%~ include('@guard', it.frame) %>
<%~ include('@form-actions', { text: 'Make the new ' + it.what, cancel: it.cancel }) %>
</form>`,
};
