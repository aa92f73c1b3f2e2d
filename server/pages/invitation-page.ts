import type { FieldError, Page } from './page.ts';

/** To what somebody is invited, and by which ways they can join. */
export interface InvitationPageData {
  /** The path of this very page. */
  readonly action: string;
  readonly organization: string;
  readonly role: string;
  /** Who is signed in, and can join with that account. */
  readonly signedInAs: string | undefined;
  readonly email: string;
  /** What the upstream provider is called, where there is one. */
  readonly provider: string | undefined;
  readonly errors: readonly FieldError[];
}

/** Joins an organization by a one-time link: with the account that is signed in, by the provider, or anew. */
export const invitationPage: Page<InvitationPageData> = {
  title: ({ errors, organization }) =>
    errors.length > 0 ? 'Not joined yet' : `Join ${organization}`,
  width: 'form',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<div>
<h1>Join <span dir="auto"><%= it.organization %></span></h1>
<p class="lead">You are invited as <strong><%= it.role %></strong>.</p>
</div>
<%~ include('@summary', it) %>
<% if (it.signedInAs !== undefined) { %>
<form method="post" action="<%= it.action %>/join">
<%~ include('@guard', it.frame) %>
<p>You are signed in as <strong dir="auto"><%= it.signedInAs %></strong>.</p>
<button class="primary">Join with this account</button>
</form>
<form class="others" method="post" action="/sign-out">
<%~ include('@guard', it.frame) %>
<input type="hidden" name="next" value="<%= it.action %>">
<button>Use another account</button>
</form>
<% } else { %>
<form method="post" action="<%= it.action %>/account" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'email', label: 'E-mail', type: 'email', value: it.email, error: wrong('email'),
  autocomplete: 'username', focus: it.errors.length === 0, help: '' }) %>
<%~ include('@new-password', { error: wrong('password'), focus: false }) %>
<button class="primary">Make an account and join</button>
</form>
<div class="others">
<p class="or">or</p>
<a class="button" href="/sign-in?next=<%= it.action %>">Sign in with your account</a>
<% if (it.provider) { %>
<form method="post" action="<%= it.action %>/provider">
<%~ include('@guard', it.frame) %>
<button>Join with <%= it.provider %></button>
</form>
<% } %>
</div>
<% } %>`,
};
