import type { FieldError, Page } from './page.ts';

/** What was typed, and what is wrong with it. */
export interface SetUpPageData {
  /** The path of this very page. */
  readonly action: string;
  readonly email: string;
  /** Asked for where it is not decided yet. */
  readonly organization: string;
  readonly asksOrganization: boolean;
  readonly errors: readonly FieldError[];
}

/** Makes the first owner. */
export const setUpPage: Page<SetUpPageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not set up yet' : 'Set up'),
  width: 'form',
  template: `<div>
<h1>Set up Latchkey</h1>
<p class="lead">You become the first owner<% if (!it.asksOrganization) { %> of the organization <strong><%= it.organization %></strong><% } %>.</p>
</div>
<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message %>
<%~ include('@summary', it) %>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<% if (it.asksOrganization) { %>
<%~ include('@field', { name: 'organization', label: 'Organization', value: it.organization,
  error: wrong('organization'), autocomplete: 'organization', focus: it.errors.length === 0,
  attributes: 'spellcheck="false" autocapitalize="none"',
  help: 'A short name that stands in addresses: lower-case letters, digits and hyphens, as acme.' }) %>
<% } %>
<%~ include('@field', { name: 'email', label: 'E-mail', type: 'email', value: it.email,
  error: wrong('email'), autocomplete: 'username', focus: !it.asksOrganization && it.errors.length === 0 }) %>
<%~ include('@new-password', { error: wrong('password') }) %>
<button class="primary">Make the account</button>
</form>`,
};
