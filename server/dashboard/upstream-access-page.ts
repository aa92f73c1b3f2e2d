import type { ShownHeaders } from '#administration/upstream-header-operations';
import type { FieldError, Page } from '#pages/page';

/** What is typed in the form of an upstream's authorization; a secret is never shown again. */
export interface TypedAccess {
  readonly kind: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly scopes: string;
  readonly omitsResource: boolean;
  readonly tellsCallers: boolean;
}

/** What is in the form, what was found out, and who has connected an account. */
export interface AccessFormData {
  readonly heading: string;
  readonly tabs: object;
  readonly notice: string | undefined;
  readonly action: string;
  readonly cancel: string;
  readonly typed: TypedAccess;
  readonly hasSecret: boolean;
  /** To register at the authorization server. */
  readonly redirectUri: string;
  /** Where the upstream finds the key of the assertions. */
  readonly jwksUri: string;
  /** What was found out about the upstream. */
  readonly facts: readonly { readonly label: string; readonly text: string }[];
  readonly connections: readonly {
    readonly email: string;
    readonly state: string;
    readonly href: string;
  }[];
  readonly isHttp: boolean;
  readonly headers: Omit<ShownHeaders, 'server'> & {
    /** The origin that they go to. */
    readonly origin: string;
    readonly action: string;
    /** What is typed as the name; a value is never shown again. */
    readonly typed: string;
    /** Of the server that the form was filled from. */
    readonly typedRevision: string;
    /** Whether somebody is about to type a value. */
    readonly isReplacing: boolean;
  };
  readonly now: number;
  readonly errors: readonly FieldError[];
}

/** The fixed headers of the requests, and setting one; `wrong` is there. */
const headersSection = `<section class="section" id="headers" aria-labelledby="headers-heading">
<h2 id="headers-heading">Fixed headers</h2>
<p class="help">Sent with every request to <span class="word"><%= it.headers.origin %></span> and to no other origin. Values are stored encrypted, and shown to nobody again.</p>
<% if (it.headers.items.length > 0) { %><ul class="rows">
<% for (const { name, hint, setAt, previous } of it.headers.items) { const at = it.headers.action + '/' + encodeURIComponent(name) %>
<li><div><code><%= name %></code>
<p class="help"><% if (hint) { %>Value <code><%= hint %></code>, set<% } else { %>Set<% } %> <%~ include('@time', { at: setAt, now: it.now }) %></p></div>
<div class="actions"><a class="button" href="<%= it.action %>?header=<%= encodeURIComponent(name) %>" aria-label="Replace <%= name %>">Replace</a>
<a class="button danger" href="<%= at %>/remove" data-question aria-label="Remove <%= name %>">Remove</a></div></li>
<% if (previous) { %>
<li><div>Previous value of <code><%= name %></code><% if (it.headers.refusedAt) { %> <span class="badge care">still needed</span><% } %>
<p class="help"><% if (previous.hint) { %>Value <code><%= previous.hint %></code>. <% } %>Sent where the MCP server refuses the new one with 401, and forgotten <%~ include('@time', { at: previous.until, now: it.now }) %>.
<% if (it.headers.refusedAt) { %>The new one was last refused <%~ include('@time', { at: it.headers.refusedAt, now: it.now }) %>.<% } else { %>The new one was not refused yet.<% } %></p></div>
<div class="actions"><form method="post" action="<%= at %>/restore"><%~ include('@guard', it.frame) %><input type="hidden" name="revision" value="<%= it.headers.revision %>"><button aria-label="Use again the previous value of <%= name %>">Use again</button></form>
<a class="button danger" href="<%= at %>/forget" data-question aria-label="Forget the previous value of <%= name %>">Forget</a></div></li>
<% } %>
<% } %>
</ul><% } %>
<form method="post" action="<%= it.headers.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<input type="hidden" name="revision" value="<%= it.headers.typedRevision %>">
<%~ include('@field', { name: 'headerName', label: 'Header', type: 'text', value: it.headers.typed, error: wrong('headerName'), focus: false,
  attributes: 'spellcheck="false" autocapitalize="none" autocomplete="off" maxlength="100"', help: it.headers.items.length > 0 ? 'A new one, as X-Api-Key, or one of those above to replace its value.' : 'As X-Api-Key.' }) %>
<%~ include('@field', { name: 'headerValue', label: 'Value', type: 'password', value: '', error: wrong('headerValue'), focus: it.headers.isReplacing, autocomplete: 'off',
  attributes: 'spellcheck="false" maxlength="4096"', help: 'The whole value, with Bearer or Basic before it where the MCP server wants that. The value that it replaces stays for seven days, for calls for which the new one is refused.' }) %>
<div class="actions"><button><%= it.headers.isReplacing ? 'Replace the value' : 'Save header' %></button></div>
</form>
</section>`;

/** How the MCP server behind an endpoint is to be asked. */
export const upstreamAccessPage: Page<AccessFormData> = {
  title: ({ errors, heading }) =>
    errors.length > 0 ? 'Not saved yet' : `Authorization of ${heading}`,
  width: 'form',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: it.heading, badges: [], action: undefined, lead: 'What the MCP server behind this endpoint wants to see before it answers.' }) %>
<%~ include('@subnav', it.tabs) %>
<%~ include('@notice', { text: it.notice }) %>
<%~ include('@summary', it) %>
<% if (!it.isHttp) { %><div class="empty"><p>Only an HTTP server can want a token or fixed headers. The calls of this server go elsewhere: see Settings.</p></div>
<% } else { %>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@choices', { name: 'kind', legend: 'How it is asked', help: '', error: wrong('kind'), options: [
  { value: 'none', text: 'Without a token', help: 'Everybody who may use this endpoint reaches it alike.', risk: '', isChosen: it.typed.kind === 'none' },
  { value: 'client_credentials', text: 'With one token for all', help: 'It sees this server as one application and does not tell people apart.', risk: '', isChosen: it.typed.kind === 'client_credentials' },
  { value: 'authorization_code', text: 'With each person’s own account', help: 'Every person connects an account there once, and only their own calls use it. API keys and applications without a person get nothing.', risk: '', isChosen: it.typed.kind === 'authorization_code' },
] }) %>
<div class="for-access">
<div class="field"><span class="label" id="redirect-label">Redirect URI to register there</span>
<p class="copied"><code aria-labelledby="redirect-label"><%= it.redirectUri %></code><button type="button" data-copy="<%= it.redirectUri %>" aria-label="Copy the redirect URI" hidden>Copy</button></p></div>
<%~ include('@field', { name: 'clientId', label: 'Client id', type: 'text', value: it.typed.clientId, error: wrong('clientId'), optional: true, unmarked: true, focus: false,
  attributes: 'spellcheck="false" autocapitalize="none" autocomplete="off" maxlength="500"', help: 'What its authorization server calls this server. Left empty for people’s accounts, this server introduces itself there.' }) %>
<%~ include('@field', { name: 'clientSecret', label: 'Client secret', type: 'password', value: '', error: wrong('clientSecret'), optional: true, unmarked: false, focus: false, autocomplete: 'off',
  attributes: 'spellcheck="false" maxlength="2000"', help: it.hasSecret ? 'One is stored, encrypted. Type another to replace it.' : 'Stored encrypted, and shown to nobody again.' }) %>
<%~ include('@field', { name: 'issuer', label: 'Authorization server', type: 'url', value: it.typed.issuer, error: wrong('issuer'), optional: true, unmarked: false, focus: false, autocomplete: '',
  attributes: 'spellcheck="false" autocapitalize="none" autocomplete="off"', help: 'Its issuer URL. Left empty, the one is taken that the MCP server names.' }) %>
<%~ include('@field', { name: 'scopes', label: 'Scopes', type: 'text', value: it.typed.scopes, error: wrong('scopes'), optional: true, unmarked: false, focus: false,
  attributes: 'spellcheck="false" autocapitalize="none" autocomplete="off"', help: 'With spaces between. Left empty, what the MCP server asks for.' }) %>
<%~ include('@checks', { name: 'resource', legend: 'What tokens are for', error: '', help: '', options: [
  { value: 'omits', text: 'Ask without naming the MCP server', help: 'Only where its authorization server answers invalid_target. Its tokens are then not bound to this MCP server, which could use them at others.', risk: '', isChosen: it.typed.omitsResource },
] }) %>
</div>
<%~ include('@checks', { name: 'caller', legend: 'Who is calling', error: '', help: '', options: [
  { value: 'tells', text: 'Tell it who calls', help: 'With a signed assertion in every call: a JWT that it checks with the keys at ' + it.jwksUri + '. It names the person or the application.', risk: '', isChosen: it.typed.tellsCallers },
] }) %>
<%~ include('@form-actions', { text: 'Save', cancel: it.cancel }) %>
</form>
<% if (it.facts.length > 0) { %><section class="section" aria-labelledby="found-heading"><h2 id="found-heading">In force</h2><%~ include('@facts', { facts: it.facts, now: 0 }) %></section><% } %>
<% if (it.connections.length > 0) { %>
<section class="section" aria-labelledby="connected-heading">
<h2 id="connected-heading">Connected accounts</h2>
<p class="help">Another client id, authorization server or way to ask ends them all.</p>
<ul class="rows">
<% for (const { email, state, href } of it.connections) { %><li><div><span dir="auto"><%= email %></span><p class="help"><%= state %></p></div><a class="button danger" href="<%= href %>" data-question aria-label="Disconnect <%= email %>">Disconnect</a></li><% } %>
</ul>
</section>
<% } %>
${headersSection}
<% } %>`,
};
