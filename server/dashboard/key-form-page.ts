import type { FieldError, Page } from '#pages/page';
import type { scopeOptions } from './scope-options.ts';

/** What was typed, and what is wrong with it. An expiry is a number of days; empty, the key never ends. */
export interface KeyFormData {
  readonly server: string;
  readonly action: string;
  readonly cancel: string;
  readonly name: string;
  readonly scopes: ReturnType<typeof scopeOptions>;
  readonly expiries: readonly {
    readonly value: string;
    readonly text: string;
    readonly isChosen: boolean;
  }[];
  readonly errors: readonly FieldError[];
}

/** Generates an API key of a server. */
export const keyFormPage: Page<KeyFormData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not generated yet' : 'Generate API key'),
  width: 'form',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: 'Generate API key', lead: 'It opens ' + it.server + ' for whoever holds it. The next page shows it once.', badges: [], action: undefined }) %>
<%~ include('@summary', it) %>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'name', label: 'Name', value: it.name, error: wrong('name'), focus: it.errors.length === 0,
  attributes: 'autocomplete="off" maxlength="200"', help: 'Who or what uses it, as Nightly report.' }) %>
<%~ include('@checks', { name: 'scopes', legend: 'What it may do', error: wrong('scopes'), help: '', options: it.scopes }) %>
<%~ include('@select', { name: 'expiry', label: 'Ends by itself', error: wrong('expiry'), options: it.expiries,
  help: 'Whatever you choose, rotate it every 90 days; the list reminds you.' }) %>
<%~ include('@form-actions', { text: 'Generate API key', cancel: it.cancel }) %>
</form>`,
};
