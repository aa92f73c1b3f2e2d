import { perform } from '#administration/perform';
import type { ShownWebhook } from '#administration/shown-webhook';
import { webhookCreate, webhookList } from '#administration/webhook-operations';
import { queryText } from '#http/query-text';
import type { FieldError } from '#pages/page';
import type { Table } from '#pages/table';
import type { FastifyReply } from 'fastify';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { shownOncePage } from './shown-once-page.ts';
import { refusedWebhook, typedWebhook, webhookWish } from './webhook-form.ts';
import { webhooksPage, type TypedWebhook } from './webhook-pages.ts';
import { shownWebhookSecret } from './webhook-secret.ts';
import { hostOf, wantedWords, webhookBadge, webhookCrumbs, webhooksPath } from './webhook-words.ts';

const needs = { permission: 'webhook.manage', section: 'settings' } as const;

/** `/settings/webhooks`: where the events of an organization are sent, and sending them elsewhere as well. */
export function webhookListRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const show = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    but: { typed?: TypedWebhook; errors?: FieldError[]; notice?: string | undefined },
  ) => {
    const { organization, actor } = visit;
    const { typed = { url: '', actions: '' }, errors = [], notice } = but;
    const { items } = await perform(webhookList, { organization }, actor, ports);
    const home = webhooksPath(organization);
    const table = tableOf(items, home, ports.clock.now());
    const known = await ports.auditReader.actions(organization);
    const data = { table, notice, action: home, typed, known, errors };
    const crumbs = webhookCrumbs(organization);
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, webhooksPage, data, { crumbs, status });
  };

  door.get('/settings/webhooks', needs, (visit, request, reply) =>
    show(reply, visit, {
      notice:
        queryText(request, 'done') === 'removed'
          ? 'The webhook is removed and is sent nothing any more.'
          : undefined,
    }),
  );

  door.post('/settings/webhooks', needs, async (visit, sent, _request, reply) => {
    const { organization, actor } = visit;
    const typed = typedWebhook(sent);
    try {
      const wish = webhookWish(typed);
      const made = await perform(webhookCreate, { organization, ...wish }, actor, ports);
      const data = {
        heading: `Events are sent to ${hostOf(made)} from now on`,
        next: 'Put the secret where they are received: each message is verified by it.',
        secret: shownWebhookSecret(organization, made),
      };
      const crumbs = [...webhookCrumbs(organization), { text: hostOf(made) }];
      return sendDashboardPage(reply, visit, shownOncePage, data, { crumbs });
    } catch (refusal) {
      return show(reply, visit, { typed, errors: refusedWebhook(refusal) });
    }
  });
}

function tableOf(webhooks: readonly ShownWebhook[], home: string, now: number): Table {
  return {
    caption: 'Webhooks',
    columns: ['Sent to', 'Events', 'Last taken', 'Created'].map((text) => ({ text })),
    rows: webhooks.map((one) => ({
      id: one.id,
      isOver: one.status === 'disabled',
      cells: [
        { kind: 'name', text: hostOf(one), href: `${home}/${one.id}`, badges: [webhookBadge(one)] },
        { kind: 'text', text: wantedWords(one) },
        { kind: 'time', at: one.lastSuccessAt ?? undefined, otherwise: 'Never' },
        { kind: 'time', at: one.createdAt, otherwise: '' },
      ],
    })),
    empty: { text: 'No webhooks yet. Events stay in the audit log, and are sent nowhere.' },
    now,
  };
}
