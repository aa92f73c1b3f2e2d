import { organizationRead } from '#administration/organization-operations';
import { perform } from '#administration/perform';
import { settingsRead, settingsUpdate } from '#administration/settings-operations';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import type { FastifyReply } from 'fastify';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { refusedForm } from './refused-form.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { settingsPage } from './settings-page.ts';
import { webhooksPath } from './webhook-words.ts';

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
          text: 'Members may use applications that registered themselves',
          help: 'By a metadata document on the web, or by dynamic registration. When you turn this off, only clients that an administrator created have access: the others lose it immediately, with all their tokens. When you turn it on again, what members allowed is valid again, unless it was revoked or expired.',
          risk: '',
          isChosen: rules.openClientsAllowed,
        },
      ],
      mayManage: may('organization.manage'),
      webhooks: may('webhook.manage') ? webhooksPath(organization) : undefined,
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
