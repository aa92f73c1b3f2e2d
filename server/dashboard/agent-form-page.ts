import type { FieldError, Page } from '#pages/page';

/** What was typed, and what is wrong with it; `action` and `cancel` are paths of ours. */
export interface AgentFormData {
  readonly action: string;
  readonly cancel: string;
  readonly name: string;
  readonly errors: readonly FieldError[];
}

/** Makes an on-premise agent. */
export const agentFormPage: Page<AgentFormData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not created yet' : 'Create agent'),
  width: 'form',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: 'Create agent', lead: 'An agent runs inside your private network and dials out to this server; nothing there needs an open port. The next page shows its key once.', badges: [], action: undefined }) %>
<%~ include('@summary', it) %>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'name', label: 'Name', value: it.name, error: wrong('name'), focus: it.errors.length === 0,
  attributes: 'spellcheck="false" autocapitalize="none" autocomplete="off" maxlength="63"',
  help: 'Where it runs, as head-office: lower-case letters, digits and hyphens.' }) %>
<%~ include('@form-actions', { text: 'Create agent', cancel: it.cancel }) %>
</form>`,
};
