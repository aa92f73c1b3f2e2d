import type { Page } from './page.ts';

/** The codes, in the answer that makes them and never again. */
export interface RecoveryCodesPageData {
  readonly codes: readonly string[];
  /** Whether the app was set up just now, rather than the codes renewed. */
  readonly isNew: boolean;
}

/** Shows recovery codes, this once. */
export const recoveryCodesPage: Page<RecoveryCodesPageData> = {
  title: () => 'Recovery codes',
  width: 'form',
  template: `<div>
<h1>Recovery codes</h1>
<p class="lead"><% if (it.isNew) { %>The authenticator app is on. <% } %>Keep these codes where you find them without your phone. Each signs you in once instead of the app.</p>
</div>
<div class="codes">
<ul>
<% for (const code of it.codes) { %>
<li><code><%= code %></code></li>
<% } %>
</ul>
<button type="button" data-copy="<%= it.codes.join('\\n') %>" aria-label="Copy the recovery codes" hidden>Copy</button>
</div>
<p class="notice" role="status">This page does not come back: from here on nobody can show these codes, nor can we.<% if (!it.isNew) { %> The ones before them are over.<% } %></p>
<form method="get" action="/account">
<div class="actions"><button class="primary">I have stored them</button></div>
</form>`,
};
