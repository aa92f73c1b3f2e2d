import type { FieldError, Page } from './page.ts';

/** Who is asked for a code, and what is wrong with the one that was typed. */
export interface CodePageData {
  /** Shows that this browser proved the password. */
  readonly challenge: string;
  readonly userId: string;
  /** Where to go afterwards, a path of ours. */
  readonly next: string;
  readonly errors: readonly FieldError[];
}

/** Asks for the code of the authenticator app, after the password. */
export const codePage: Page<CodePageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not signed in' : 'Your code'),
  width: 'form',
  template: `<h1>One more step</h1>
<%~ include('@summary', it) %>
<form method="post" action="/sign-in/code" novalidate>
<%~ include('@guard', it.frame) %>
<input type="hidden" name="challenge" value="<%= it.challenge %>">
<input type="hidden" name="user" value="<%= it.userId %>">
<input type="hidden" name="next" value="<%= it.next %>">
<%~ include('@field', { name: 'code', label: 'Code from your authenticator app', value: '',
  autocomplete: 'one-time-code', error: it.errors[0]?.message, focus: it.errors.length === 0,
  attributes: 'autocapitalize="none" spellcheck="false"',
  help: 'Six digits. Without the app, type one of your recovery codes instead; each works once.' }) %>
<button class="primary">Sign in</button>
</form>
<p class="help">Neither at hand? An administrator of your organization can reset it. <a href="/sign-in">Start again</a></p>`,
};
