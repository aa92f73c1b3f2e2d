import type { EpochSeconds } from '#clock/clock';

/** A passkey as its owner sees it. */
export interface AccountPasskey {
  readonly id: string;
  readonly name: string;
  readonly createdAt: EpochSeconds;
  readonly lastUsedAt: EpochSeconds | undefined;
}

/** The part of the account page about passkeys. Removing works without scripts, adding cannot. */
export const accountPasskeys = `<% if (it.passkeys) { %>
<section class="section narrow" aria-labelledby="passkeys-heading">
<h2 id="passkeys-heading">Passkeys</h2>
<p class="help">Sign in by fingerprint, face or PIN of your device instead of the password.</p>
<ul class="rows">
<% for (const passkey of it.passkeys) { %>
<li>
<div><strong dir="auto"><%= passkey.name %></strong>
<p class="help">Added <%~ include('@time', { at: passkey.createdAt, now: it.now }) %>,
 <% if (passkey.lastUsedAt) { %>last used <%~ include('@time', { at: passkey.lastUsedAt, now: it.now }) %>
<% } else { %>never used<% } %></p></div>
<form method="post" action="/account/passkeys/<%= passkey.id %>/remove">
<%~ include('@guard', it.frame) %>
<button class="danger" aria-label="Remove <%= passkey.name %>">Remove</button>
</form>
</li>
<% } %>
<% if (it.passkeys.length === 0) { %><li>None yet.</li><% } %>
</ul>
<noscript><p class="help">Adding one needs scripts, which are off in this browser.</p></noscript>
<% if (it.isRecent) { %>
<form class="inline" data-passkeys hidden>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'passkey-name', label: 'Name of the new passkey', value: 'Passkey',
  attributes: 'maxlength="60"', help: 'So that you can tell it from others, as “Laptop”.' }) %>
<div class="actions"><button type="submit" data-passkey="add">Add a passkey</button></div>
<p class="error" data-passkey-error role="alert" hidden></p>
</form>
<% } else { %>
<p data-passkeys hidden><a class="button" href="/sign-in?again=1&amp;next=/account">Sign in again to add a passkey</a></p>
<% } %>
</section>
<% } %>`;
