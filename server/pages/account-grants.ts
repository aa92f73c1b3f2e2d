import type { EpochSeconds } from '#clock/clock';

/** One application that acts for the person, as the account page shows it. */
export interface AccountGrant {
  readonly id: string;
  /** The application's name, which somebody else chose. */
  readonly client: string;
  /** `organization/server`. */
  readonly server: string;
  /** What it may do, in words. */
  readonly scopes: readonly string[];
  readonly createdAt: EpochSeconds;
  readonly lastUsedAt: EpochSeconds | undefined;
}

/** The part of the account page that lists what the person allowed; withdrawing is a POST. */
export const accountGrants = `<% if (it.grants) { %>
<section class="section" aria-labelledby="grants-heading">
<h2 id="grants-heading">Applications</h2>
<p class="help">What you allowed to act for you. Withdrawn, an application loses access at once.</p>
<ul class="rows">
<% for (const grant of it.grants) { %>
<li>
<div><strong dir="auto"><%= grant.client %></strong> <span class="badge"><%= grant.server %></span>
<p class="help"><%= grant.scopes.join('; ') %></p>
<p class="help">Allowed <%~ include('@time', { at: grant.createdAt, now: it.now }) %><% if (grant.lastUsedAt) { %>,
 last used <%~ include('@time', { at: grant.lastUsedAt, now: it.now }) %><% } %></p></div>
<form method="post" action="/account/grants/<%= grant.id %>/withdraw">
<%~ include('@guard', it.frame) %>
<button class="danger" aria-label="Withdraw from <%= grant.client %>">Withdraw</button>
</form>
</li>
<% } %>
<% if (it.grants.length === 0) { %><li>None yet. An application asks you when you first connect it.</li><% } %>
</ul>
</section>
<% } %>`;
