import type { EpochSeconds } from '#clock/clock';
import { accountGrants, type AccountGrant } from './account-grants.ts';
import { accountPasskeys, type AccountPasskey } from './account-passkeys.ts';
import { accountSecondFactor } from './account-second-factor.ts';
import { accountSessions, type AccountSession } from './account-sessions.ts';
import type { FieldError, Page } from './page.ts';

/** How somebody stands: as whom, where, and by what they prove it. */
export interface AccountPageData {
  readonly now: EpochSeconds;
  readonly email: string;
  readonly memberships: readonly { readonly organization: string; readonly role: string }[];
  /** Whether the person signed in lately, and so may add ways to sign in. */
  readonly isRecent: boolean;
  readonly hasPassword: boolean;
  readonly sessions: readonly AccountSession[];
  /** `undefined` where passkeys cannot work: under an IP address. */
  readonly passkeys: readonly AccountPasskey[] | undefined;
  /** What the person allowed applications to do; `undefined` shows no such section. */
  readonly grants: readonly AccountGrant[] | undefined;
  readonly secondFactor: {
    readonly isOn: boolean;
    /** Whether this browser proved two factors. */
    readonly isProved: boolean;
    readonly recoveryCodes: number;
    /** Organizations that ask for more than this browser proved. */
    readonly requiredBy: readonly string[];
  };
  readonly provider: { readonly name: string; readonly isLinked: boolean } | undefined;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
}

/** Who I am, where I am signed in, and how I prove it. */
export const accountPage: Page<AccountPageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not changed' : 'Your account'),
  width: 'text',
  template: `<div>
<h1>Your account</h1>
<p class="lead" dir="auto"><%= it.email %></p>
</div>
<%~ include('@notice', { text: it.notice }) %>
<%~ include('@summary', it) %>
<section class="section" aria-labelledby="organizations-heading">
<h2 id="organizations-heading">Organizations</h2>
<ul class="rows">
<% for (const { organization, role } of it.memberships) { %>
<li><div dir="auto"><a href="/dashboard/<%= organization %>"><%= organization %></a></div><span class="badge"><%= role %></span></li>
<% } %>
<% if (it.memberships.length === 0) { %><li>You belong to no organization. Ask an owner to add you.</li><% } %>
</ul>
</section>
${accountGrants}
${accountPasskeys}
<section class="section narrow" aria-labelledby="password-heading">
<h2 id="password-heading">Password</h2>
<% if (it.hasPassword) { %>
<p class="help">Changing it signs out every other browser, and every application loses what you allowed it.</p>
<form method="post" action="/account/password" novalidate>
<%~ include('@guard', it.frame) %>
<input type="hidden" name="email" value="<%= it.email %>" autocomplete="username">
<%~ include('@field', { name: 'current', label: 'Current password', type: 'password',
  autocomplete: 'current-password', error: it.errors.find(({ field }) => field === 'current')?.message }) %>
<%~ include('@new-password', { error: it.errors.find(({ field }) => field === 'password')?.message }) %>
<div class="actions"><button>Change the password</button></div>
</form>
<% } else { %>
<p class="help">You have none. Whoever runs this server can make you a link to set one.</p>
<% } %>
</section>
${accountSecondFactor}
<section class="section" aria-labelledby="tokens-heading">
<h2 id="tokens-heading">Personal tokens</h2>
<p class="help">With one, a program administers what you may, by the admin API.</p>
<p><a class="button" href="/account/tokens">Personal tokens</a></p>
</section>
<% if (it.provider) { %>
<section class="section" aria-labelledby="provider-heading">
<h2 id="provider-heading"><%= it.provider.name %></h2>
<% if (it.provider.isLinked) { %>
<p class="help">You can sign in with your account there.</p>
<% if (it.isRecent) { %>
<form method="post" action="/account/provider/unlink">
<%~ include('@guard', it.frame) %>
<div class="actions"><button class="danger">Unlink it</button></div>
</form>
<% } else { %>
<p><a class="button" href="/sign-in?again=1&amp;next=/account">Sign in again to unlink it</a></p>
<% } %>
<% } else { %>
<p class="help">Link your account there to sign in with it.</p>
<% if (it.isRecent) { %>
<form method="post" action="/account/provider">
<%~ include('@guard', it.frame) %>
<div class="actions"><button>Link it</button></div>
</form>
<% } else { %>
<p><a class="button" href="/sign-in?again=1&amp;next=/account">Sign in again to link it</a></p>
<% } %>
<% } %>
</section>
<% } %>
${accountSessions}`,
};
