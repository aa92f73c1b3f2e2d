import type { EpochSeconds } from '#clock/clock';

/** A browser that the person is signed in with. */
export interface AccountSession {
  readonly id: string;
  /** The browser and the system, in words. */
  readonly browser: string;
  readonly address: string;
  readonly createdAt: EpochSeconds;
  readonly usedAt: EpochSeconds;
  /** Whether it is the one that looks at the page. */
  readonly isThis: boolean;
}

/** The part of the account page that lists where the person is signed in. */
export const accountSessions = `<section class="section" aria-labelledby="sessions-heading">
<h2 id="sessions-heading">Where you are signed in</h2>
<ul class="rows">
<% for (const session of it.sessions) { %>
<li>
<div><strong><%= session.browser %></strong><% if (session.isThis) { %> <span class="badge">this browser</span><% } %>
<p class="help"><%= session.address %>, signed in <%~ include('@time', { at: session.createdAt, now: it.now }) %>,
 last seen <%~ include('@time', { at: session.usedAt, now: it.now }) %></p></div>
<% if (!session.isThis) { %>
<form method="post" action="/account/sessions/<%= session.id %>/end">
<%~ include('@guard', it.frame) %>
<button class="danger" aria-label="End the session of <%= session.browser %> at <%= session.address %>">End</button>
</form>
<% } %>
</li>
<% } %>
</ul>
<% if (it.sessions.length > 1) { %>
<form method="post" action="/account/sessions/end-others">
<%~ include('@guard', it.frame) %>
<div class="actions"><button class="danger">End all others</button></div>
</form>
<% } %>
</section>`;
