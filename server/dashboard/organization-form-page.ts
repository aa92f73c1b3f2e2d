import type { FieldError, Page } from '#pages/page';

/** What was typed, and what is wrong with it. */
export interface OrganizationFormData {
  readonly typed: { readonly name: string; readonly title: string };
  readonly errors: readonly FieldError[];
}

/** Makes an organization. */
export const organizationFormPage: Page<OrganizationFormData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not created yet' : 'Create organization'),
  width: 'form',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<h1>Create organization</h1>
<p class="lead">An organization holds servers, agents and people of its own. You become its owner.</p>
<%~ include('@summary', it) %>
<form method="post" action="/new-organization" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'name', label: 'Name', value: it.typed.name, error: wrong('name'), focus: it.errors.length === 0,
  attributes: 'spellcheck="false" autocapitalize="none" autocomplete="off" maxlength="63"',
  help: 'Stands in addresses and stays: lower-case letters, digits and hyphens, as acme.' }) %>
<%~ include('@field', { name: 'title', label: 'Title', value: it.typed.title, error: wrong('title'), optional: true, focus: false,
  attributes: 'maxlength="200"', help: 'What people call it, in any script.' }) %>
<%~ include('@form-actions', { text: 'Create organization', cancel: '/organizations' }) %>
</form>`,
};
