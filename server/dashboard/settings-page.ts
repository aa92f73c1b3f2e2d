import type { FieldError, Page } from '#pages/page';

/** The settings of an organization, and what is wrong with those that were typed. */
export interface SettingsPageData {
  readonly action: string;
  readonly called: string;
  readonly rules: readonly object[];
  readonly mayManage: boolean;
  /** Where its events are sent, for who may look. */
  readonly webhooks: string | undefined;
  readonly notice: string | undefined;
  readonly errors: readonly FieldError[];
}

/** What an organization is called, asks of its people and lets them do. */
export const settingsPage: Page<SettingsPageData> = {
  title: ({ errors }) => (errors.length > 0 ? 'Not saved' : 'Settings'),
  width: 'text',
  template: `<% const wrong = (name) => it.errors.find(({ field }) => field === name)?.message || '' %>
<%~ include('@heading', { heading: 'Settings', badges: [], action: undefined, lead: it.mayManage ? '' : 'Only an owner changes these.' }) %>
<%~ include('@notice', { text: it.notice }) %>
<%~ include('@summary', it) %>
<form method="post" action="<%= it.action %>" novalidate>
<%~ include('@guard', it.frame) %>
<%~ include('@field', { name: 'title', label: 'Title', value: it.called, error: wrong('title'), attributes: 'maxlength="200" autocomplete="off"', help: 'What people call the organization. Its name in addresses stays.', focus: false }) %>
<%~ include('@checks', { name: 'rule', legend: 'Rules', options: it.rules, error: wrong('rule'), help: '' }) %>
<% if (it.mayManage) { %><div class="actions"><button class="primary">Save</button></div><% } %>
</form>
<p class="help">Groups of the OpenID provider are mapped on the page of each group.</p>
<% if (it.webhooks) { %>
<section class="section" aria-labelledby="webhooks-heading">
<h2 id="webhooks-heading">Webhooks</h2>
<ul class="rows"><li><div>What happens here is sent to a URL of yours: a SIEM, a chat, a script.</div><a class="button" href="<%= it.webhooks %>">Webhooks</a></li></ul>
</section>
<% } %>`,
};
