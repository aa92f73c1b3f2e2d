import type { FieldError, Page } from '#pages/page';
import type { scopeOptions } from './scope-options.ts';

/** What is typed in the form of an OAuth client. */
export interface TypedClient {
  readonly name: string;
  readonly redirectUris: string;
  /** `secret` or `keys`. */
  readonly proof: string;
  readonly jwks: string;
}

/** What was typed, and what is wrong with it; `action` and `cancel` are paths of ours. */
export interface ClientFormData {
  readonly isNew: boolean;
  readonly heading: string;
  readonly lead: string;
  readonly action: string;
  readonly cancel: string;
  readonly typed: TypedClient;
  readonly scopes: ReturnType<typeof scopeOptions>;
  readonly errors: readonly FieldError[];
}

/** Makes an OAuth client of a server, or changes it. */
export const clientFormPage: Page<ClientFormData> = {
  title: ({ errors, heading }) => (errors.length > 0 ? 'Not saved yet' : heading),
  width: 'form',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: it.heading, lead: it.lead, badges: [], action: undefined }) %>
<%~ include('@summary', it) %>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'name', label: 'Name', value: it.typed.name, error: wrong('name'), focus: it.isNew && it.errors.length === 0,
  attributes: 'autocomplete="off" maxlength="200"', help: 'People see it when the application asks for their consent.' }) %>
<%~ include('@checks', { name: 'scopes', legend: 'The most it may ever do', error: wrong('scopes'), help: '', options: it.scopes }) %>
<%~ include('@area', { name: 'redirectUris', label: 'Redirect URIs', value: it.typed.redirectUris, error: wrong('redirectUris'), rows: 3,
  attributes: 'class="code-like" spellcheck="false" autocapitalize="none"',
  help: 'Where the browser may return to after consent, one a line. For a program on the person’s own computer: http://127.0.0.1/callback, whatever port it listens on. Leave it empty for an application that acts for itself.' }) %>
<% if (it.isNew) { %>
<%~ include('@choices', { name: 'proof', legend: 'How it proves itself', help: '', error: '', options: [
  { value: 'secret', text: 'A client secret', help: 'Made here and shown once.', risk: '', isChosen: it.typed.proof !== 'keys' },
  { value: 'keys', text: 'Keys of its own', help: 'It signs with a private key that never leaves it (private_key_jwt).', risk: '', isChosen: it.typed.proof === 'keys' },
] }) %>
<div class="for-keys"><%~ include('@area', { name: 'jwks', label: 'Its public keys', value: it.typed.jwks, error: wrong('jwks'), rows: 6,
  attributes: 'class="code-like" spellcheck="false" autocapitalize="none"', help: 'A JWK set: {"keys":[…]}, public members only.' }) %></div>
<% } %>
<%~ include('@form-actions', { text: it.isNew ? 'Create OAuth client' : 'Save', cancel: it.cancel }) %>
</form>`,
};
