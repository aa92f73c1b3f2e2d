/** The part of the account page about the authenticator app; works without scripts. */
export const accountSecondFactor = `<section class="section" id="second-factor" aria-labelledby="second-factor-heading">
<h2 id="second-factor-heading">Second factor</h2>
<% if (it.secondFactor.isOn) { %>
<p class="help">Besides your password we ask for a code of your authenticator app.
 <%= it.secondFactor.recoveryCodes === 1 ? 'One recovery code is' : it.secondFactor.recoveryCodes + ' recovery codes are' %> left.</p>
<% if (it.isRecent && it.secondFactor.isProved) { %>
<div class="actions">
<form method="post" action="/account/second-factor/recovery-codes">
<%~ include('@guard', it.frame) %>
<button>New recovery codes</button>
</form>
<form method="post" action="/account/second-factor/remove">
<%~ include('@guard', it.frame) %>
<button class="danger">Turn off the authenticator app</button>
</form>
</div>
<% } else { %>
<p><a class="button" href="/sign-in?again=1&amp;next=/account">Sign in again to change it</a></p>
<% } %>
<% } else { %>
<p class="help">A code from an app on your phone, asked for after your password. A passkey counts as two factors by itself.</p>
<% if (it.secondFactor.requiredBy.length > 0) { %>
<p class="notice">Asked for by <span dir="auto"><%= it.secondFactor.requiredBy.join(', ') %></span>: until you have one you can do nothing there.</p>
<% } %>
<% if (it.isRecent) { %>
<form method="post" action="/account/second-factor">
<%~ include('@guard', it.frame) %>
<div class="actions"><button>Set up an authenticator app</button></div>
</form>
<% } else { %>
<p><a class="button" href="/sign-in?again=1&amp;next=/account">Sign in again to set one up</a></p>
<% } %>
<% } %>
</section>`;
