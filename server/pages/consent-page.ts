import type { EpochSeconds } from '#clock/clock';
import type { Page } from './page.ts';
import type { ScopeSentence } from './scope-sentence.ts';

/** Who asks for what, to whom the answer goes, and as whom it is given. */
export interface ConsentPageData {
  /** What the application calls itself, in one line, not too long. */
  readonly client: string;
  readonly organization: string;
  readonly server: string;
  readonly email: string;
  readonly scopes: readonly ScopeSentence[];
  /** Asked for, and beyond the person's role. */
  readonly withheld: readonly ScopeSentence[];
  /** Where the answer goes: a site, a program on this computer, or whatever has the scheme. */
  readonly place: { readonly kind: 'site' | 'loopback' | 'program'; readonly host: string };
  readonly until: EpochSeconds;
  readonly requestId: string;
  /** This page's own path, for whoever comes back as somebody else. */
  readonly back: string;
}

/** Asks a person for what an application wants: who, what, where, as whom and until when. */
export const consentPage: Page<ConsentPageData> = {
  title: ({ client }) => `Allow ${client}?`,
  width: 'form',
  template: `<h1>Allow <bdi><%= it.client %></bdi> to use <bdi><%= it.organization %> / <%= it.server %></bdi>?</h1>
<% if (it.place.kind === 'site') { %>
<p class="lead">It asks from <strong><%= it.place.host %></strong>, and the answer goes there. Anybody can choose a name; check that you know this address.</p>
<% } else if (it.place.kind === 'loopback') { %>
<p class="notice warning"><strong>The answer goes to a program on this computer</strong> (<code><%= it.place.host %></code>), and any program can take this name. Allow it only if you have just started to connect it yourself.</p>
<% } else { %>
<p class="notice warning"><strong>The answer goes to whatever program opens <code><%= it.place.host %></code> links</strong>, and any program can take this name. Allow it only if you have just started to connect it yourself.</p>
<% } %>
<section class="group" aria-labelledby="scopes-heading">
<h2 id="scopes-heading">It will be able to</h2>
<ul class="rows">
<% for (const { text, risk } of it.scopes) { %>
<li><div><%= text %><% if (risk) { %><p class="help"><%= risk %></p><% } %></div><% if (risk) { %><span class="badge care">take care</span><% } %></li>
<% } %>
</ul>
<% for (const { text } of it.withheld) { %>
<p class="help">It also asked for this, which your role does not let you give: <%= text.toLowerCase() %>.</p>
<% } %>
</section>
<p>It acts as <strong dir="auto"><%= it.email %></strong>, until <time datetime="<%= new Date(it.until * 1000).toISOString() %>"><%= new Date(it.until * 1000).toUTCString().slice(5, 16) %></time> at most. You can withdraw this at any time on <a href="/account">your account page</a>.</p>
<form method="post" action="/oauth/consent">
<%~ include('@guard', it.frame) %>
<input type="hidden" name="request" value="<%= it.requestId %>">
<div class="actions even">
<button class="primary" name="decision" value="allow">Allow</button>
<button name="decision" value="deny">Deny</button>
</div>
</form>
<form method="post" action="/sign-out">
<%~ include('@guard', it.frame) %>
<input type="hidden" name="next" value="<%= it.back %>">
<p class="help">Not you? <button class="quiet">Sign in as somebody else</button></p>
</form>`,
};
