import { organizationRead } from '#administration/organization-operations';
import { perform } from '#administration/perform';
import { settingsRead, settingsUpdate } from '#administration/settings-operations';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError, Page } from '#pages/page';
import type { FastifyReply } from 'fastify';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { refusedForm } from './refused-form.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

interface SettingsPageData {
  readonly action: string;
  readonly called: string;
  readonly rules: readonly object[];
  readonly mayManage: boolean;
  readonly notice: string | undefined;
  readonly errors: readonly FieldError[];
}

const settingsPage: Page<SettingsPageData> = {
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
<p class="help">Groups of the OpenID provider are mapped on the page of each group.</p>`,
};

/** `/settings`: what an organization is called, asks of its people and lets them do. */
export function settingsRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const reads = { permission: 'organization.read', section: 'settings' } as const;
  const manages = { permission: 'organization.manage', section: 'settings' } as const;
  const show = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    { notice, errors = [] }: { notice?: string | undefined; errors?: FieldError[] },
  ) => {
    const { organization, actor, may } = visit;
    const { title } = await perform(organizationRead, { organization }, actor, ports);
    const rules = await perform(settingsRead, { organization }, actor, ports);
    const data = {
      action: `${dashboardPath(organization)}/settings`,
      called: title,
      rules: [
        {
          value: 'secondFactorRequired',
          text: 'Everybody needs a second factor',
          help: 'Whoever signs in by password alone opens no page here and allows no application. What was allowed before goes on.',
          risk: '',
          isChosen: rules.secondFactorRequired,
        },
        {
          value: 'openClientsAllowed',
          text: 'Members may allow applications that made themselves known',
          help: 'By a document on the web, or by registering. Without it, only clients count that an administrator made.',
          risk: '',
          isChosen: rules.openClientsAllowed,
        },
      ],
      mayManage: may('organization.manage'),
      notice,
      errors,
    };
    const status = errors.length > 0 ? 422 : 200;
    const crumbs = [{ text: 'Settings' }];
    return sendDashboardPage(reply, visit, settingsPage, data, { crumbs, status });
  };

  door.get('/settings', reads, (visit, request, reply) =>
    show(reply, visit, {
      notice: queryText(request, 'done') === 'saved' ? 'Saved. It counts from now on.' : undefined,
    }),
  );

  door.post('/settings', manages, async (visit, sent, _request, reply) => {
    const { organization, actor } = visit;
    const rule = (name: string) => sent.get(`rule.${name}`) !== undefined;
    try {
      const change = {
        title: sent.get('title')?.trim() ?? '',
        secondFactorRequired: rule('secondFactorRequired'),
        openClientsAllowed: rule('openClientsAllowed'),
      };
      await perform(settingsUpdate, { organization, ...change }, actor, ports);
    } catch (refusal) {
      const labels = { title: { field: 'title', label: 'The title' } };
      return show(reply, visit, { errors: refusedForm(refusal, labels, 'rule') });
    }
    const next = `${dashboardPath(organization)}/settings?done=saved`;
    return seeOther(reply, next);
  });
}
