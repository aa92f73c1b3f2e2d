import { perform } from '#administration/perform';
import { webhookRead, webhookRemove, webhookUpdate } from '#administration/webhook-operations';
import {
  webhookDisable,
  webhookEnable,
  webhookRotate,
  webhookTest,
} from '#administration/webhook-state-operations';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import type { FieldError } from '#pages/page';
import type { FastifyReply } from 'fastify';
import type { DashboardDoor, DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { questionRoutes } from './question-routes.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { shownOncePage } from './shown-once-page.ts';
import { refusedWebhook, typedWebhook, webhookWish } from './webhook-form.ts';
import { webhookPage, type TypedWebhook } from './webhook-pages.ts';
import { shownWebhookSecret } from './webhook-secret.ts';
import {
  disabledWords,
  hostOf,
  webhookBadge,
  webhookCrumbs,
  webhookFacts,
  webhooksPath,
} from './webhook-words.ts';

const needs = { permission: 'webhook.manage', section: 'settings' } as const;
const path = '/settings/webhooks/:webhookId';
const notices: Readonly<Record<string, string>> = {
  saved: 'Saved. It counts for the next event.',
  enabled: 'Enabled. Events are sent again.',
  disabled: 'Disabled. Nothing is sent until it is enabled again.',
};

interface But {
  readonly typed?: TypedWebhook;
  readonly errors?: FieldError[];
  readonly notice?: string | undefined;
  readonly warning?: string | undefined;
}

/** `/settings/webhooks/{webhook}`: how deliveries go, a test, and what can be changed. */
export function webhookRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const idOf = ({ params }: DashboardRequest) => params['webhookId'] ?? '';
  const placeOf = ({ organization }: DashboardVisit, request: DashboardRequest) => {
    return { organization, webhookId: idOf(request) };
  };
  const homeOf = ({ organization }: DashboardVisit, request: DashboardRequest) =>
    `${webhooksPath(organization)}/${idOf(request)}`;
  const read = async (visit: DashboardVisit, request: DashboardRequest) => {
    const webhook = await perform(webhookRead, placeOf(visit, request), visit.actor, ports);
    const crumbs = [...webhookCrumbs(visit.organization), { text: hostOf(webhook) }];
    return { webhook, crumbs };
  };

  const show = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    request: DashboardRequest,
    { typed, errors = [], notice, warning }: But = {},
  ) => {
    const { webhook, crumbs } = await read(visit, request);
    const now = ports.clock.now();
    const data = {
      heading: hostOf(webhook),
      badges: [webhookBadge(webhook)],
      notice,
      warning: warning ?? disabledWords(webhook),
      facts: webhookFacts(webhook, now),
      home: homeOf(visit, request),
      status: webhook.status,
      typed: typed ?? { url: webhook.url, actions: webhook.actions.join('\n') },
      known: await ports.auditReader.actions(visit.organization),
      errors,
      now,
    };
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, webhookPage, data, { crumbs, status });
  };

  door.get(path, needs, (visit, request, reply) =>
    show(reply, visit, request, { notice: notices[queryText(request, 'done') ?? ''] }),
  );

  door.post(path, needs, async (visit, sent, request, reply) => {
    const typed = typedWebhook(sent);
    try {
      const change = { ...placeOf(visit, request), ...webhookWish(typed) };
      await perform(webhookUpdate, change, visit.actor, ports);
    } catch (refusal) {
      return show(reply, visit, request, { typed, errors: refusedWebhook(refusal) });
    }
    return seeOther(reply, `${homeOf(visit, request)}?done=saved`);
  });

  door.post(`${path}/test`, needs, async (visit, _sent, request, reply) => {
    const place = placeOf(visit, request);
    const { isDelivered, words } = await perform(webhookTest, place, visit.actor, ports);
    const said = isDelivered
      ? { notice: `The test was taken: it ${words}.` }
      : { warning: `The test was not taken: it ${words}.` };
    return show(reply, visit, request, said);
  });

  door.post(`${path}/rotate`, needs, async (visit, _sent, request, reply) => {
    const { crumbs } = await read(visit, request);
    const made = await perform(webhookRotate, placeOf(visit, request), visit.actor, ports);
    const data = {
      heading: `The webhook to ${hostOf(made)} has a new secret`,
      next: 'Put it where messages are received, within a day: until then the one before signs as well.',
      secret: shownWebhookSecret(visit.organization, made),
    };
    return sendDashboardPage(reply, visit, shownOncePage, data, { crumbs });
  });

  door.post(`${path}/enable`, needs, async (visit, sent, request, reply) => {
    const from = sent.get('from') === 'now' ? 'now' : 'where_it_stood';
    await perform(webhookEnable, { ...placeOf(visit, request), from }, visit.actor, ports);
    return seeOther(reply, `${homeOf(visit, request)}?done=enabled`);
  });

  questionRoutes(door, `${path}/disable`, needs, {
    async ask(visit, request) {
      const { webhook, crumbs } = await read(visit, request);
      return {
        heading: `Disable the webhook to ${hostOf(webhook)}?`,
        consequences: [
          'It is sent nothing until somebody enables it again.',
          'What happens meanwhile stays in the audit log, and can be sent then.',
        ],
        verb: 'Disable the webhook',
        cancel: homeOf(visit, request),
        crumbs,
      };
    },
    async act(visit, request) {
      await perform(webhookDisable, placeOf(visit, request), visit.actor, ports);
      return `${homeOf(visit, request)}?done=disabled`;
    },
  });

  questionRoutes(door, `${path}/remove`, needs, {
    async ask(visit, request) {
      const { webhook, crumbs } = await read(visit, request);
      return {
        heading: `Remove the webhook to ${hostOf(webhook)}?`,
        consequences: [
          'It is sent nothing any more, at once and for good.',
          'Events that it has not taken yet are not sent. They stay in the audit log.',
        ],
        verb: 'Remove the webhook',
        cancel: homeOf(visit, request),
        crumbs,
      };
    },
    async act(visit, request) {
      await perform(webhookRemove, placeOf(visit, request), visit.actor, ports);
      return `${webhooksPath(visit.organization)}?done=removed`;
    },
  });
}
