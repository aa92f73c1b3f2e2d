import type { FieldError, Page } from '#pages/page';
import type { Table } from '#pages/table';

/** A person's tokens, and the form for another one; an expiry is a number of days. */
export interface TokensData {
  readonly table: Table;
  /** Whether the person proved a moment ago who they are, as a new token asks for. */
  readonly isRecent: boolean;
  readonly notice: string | undefined;
  readonly typed: { readonly name: string };
  readonly expiries: readonly {
    readonly value: string;
    readonly text: string;
    readonly isChosen: boolean;
  }[];
  readonly errors: readonly FieldError[];
}

/** The personal tokens of a person, and a form for another one. */
export const tokensPage: Page<TokensData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not made yet' : 'Personal tokens'),
  width: 'table',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<h1>Personal tokens</h1>
<p class="lead">With one, a program administers what you may, by the <a href="/api/admin/openapi.json">admin API</a>. It ends with your account, with your password, or when it expires.</p>
<%~ include('@notice', { text: it.notice }) %>
<%~ include('@summary', it) %>
<%~ include('@table', it.table) %>
<section class="section narrow" aria-labelledby="new-heading">
<h2 id="new-heading">Make a token</h2>
<% if (it.isRecent) { %>
<form method="post" action="/account/tokens" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'name', label: 'Name', value: it.typed.name, error: wrong('name'), focus: false,
  attributes: 'maxlength="200" autocomplete="off"', help: 'What uses it, as “Nightly report”.' }) %>
<%~ include('@select', { name: 'expiry', label: 'Expires', options: it.expiries, error: wrong('expiry') }) %>
<div class="actions"><button class="primary">Make the token</button></div>
</form>
<% } else { %>
<p class="help">A new token takes a sign-in within the last ten minutes, so that an open browser that somebody finds makes none.</p>
<p><a class="button" href="/sign-in?again=1&amp;next=/account/tokens">Sign in again to make one</a></p>
<% } %>
</section>
<p><a href="/account">Your account</a></p>`,
};
