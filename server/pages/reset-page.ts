import type { FieldError, Page } from './page.ts';

/** Whose password it is, and what is wrong with the one that was typed. */
export interface ResetPageData {
  /** The path of this very page. */
  readonly action: string;
  readonly email: string;
  readonly errors: readonly FieldError[];
}

/** Sets a new password by a one-time link. */
export const resetPage: Page<ResetPageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'No new password yet' : 'New password'),
  width: 'form',
  template: `<div>
<h1>New password</h1>
<p class="lead">For <strong dir="auto"><%= it.email %></strong>. Every browser that is signed in as you is signed out.</p>
</div>
<%~ include('@summary', it) %>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<input type="hidden" name="email" value="<%= it.email %>" autocomplete="username">
<%~ include('@new-password', { error: it.errors[0]?.message, focus: it.errors.length === 0 }) %>
<button class="primary">Set the password</button>
</form>`,
};
