import type { FieldError, Page } from './page.ts';

/** What was typed, what is wrong with it, and which ways in there are. */
export interface SignInPageData {
  /** What was typed; never the password. */
  readonly email: string;
  /** Where to go afterwards, a path of ours. */
  readonly next: string;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
  /** Whether passkeys work under this address at all. */
  readonly passkeys: boolean;
  /** What the upstream provider is called, where there is one. */
  readonly provider: string | undefined;
}

/** Signs in: by password, passkey or the provider, whichever there is. */
export const signInPage: Page<SignInPageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not signed in' : 'Sign in'),
  width: 'form',
  template: `<h1>Sign in</h1>
<%~ include('@notice', { text: it.notice }) %>
<%~ include('@summary', it) %>
<form method="post" action="/sign-in" novalidate>
<%~ include('@guard', it.frame) %>
<input type="hidden" name="next" value="<%= it.next %>">
<%~ include('@field', { name: 'email', label: 'E-mail', type: 'email', value: it.email,
  autocomplete: 'username webauthn', focus: it.errors.length === 0 }) %>
<%~ include('@field', { name: 'password', label: 'Password', type: 'password',
  autocomplete: 'current-password' }) %>
<button class="primary">Sign in</button>
</form>
<% if (it.passkeys || it.provider) { %>
<div class="others" <% if (!it.provider) { %>data-passkeys hidden<% } %>>
<p class="or">or</p>
<% if (it.passkeys) { %>
<button type="button" data-passkey="sign-in" hidden>Sign in with a passkey</button>
<p class="error" data-passkey-error role="alert" hidden></p>
<% } %>
<% if (it.provider) { %>
<form method="post" action="/sign-in/provider">
<%~ include('@guard', it.frame) %>
<input type="hidden" name="next" value="<%= it.next %>">
<button>Sign in with <%= it.provider %></button>
</form>
<% } %>
</div>
<% } %>
<p class="help">No password any more? Whoever runs this server can make you a link for a new one.</p>`,
};
