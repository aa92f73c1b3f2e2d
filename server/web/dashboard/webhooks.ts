import type { FastifyReply } from 'fastify';

import { perform } from '#admin/operation';
import {
  type WebhookView,
  webhookCreate,
  webhookList,
  webhookRead,
  webhookRemove,
  webhookUpdate,
  webhookDisable,
  webhookEnable,
  webhookRotate,
  webhookTest,
} from '#admin/webhooks';
import type { EpochSeconds } from '#clock/clock';
import { listAuditActions } from '#db/audit';
import { errorSummary, type FieldError, hiddenField, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  type Badge,
  dashboardPath,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
} from '#web/layout';
import { type OneTimeSecret, oneTimeSecretPage } from '#web/one-time-secret';
import { queryText, seeOther } from '#web/page-request';
import { type Cell, dataTable, type Fact, factList, type Table } from '#web/tables';
import { type Entered, formFor, type OperationForm } from './forms.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';
import { questionRoutes } from './questions.ts';

/** The webhooks of an organization. */
export function webhookRoutes(guard: DashboardGuard, options: DashboardOptions): void {
  listRoutes(guard, options);
  pageRoutes(guard, options);
}

const toManage = { permission: 'webhook.manage', section: 'settings' } as const;
const newForm = formFor(webhookCreate);
const changeForm = formFor(webhookUpdate);

/** `/settings/webhooks`: the webhooks of an organization, and a form for a new one. */
function listRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  const show = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    { entered = newForm.blank, errors = [], notice }: But,
  ) => {
    const { organization, actor } = visit;
    const { items } = await perform(webhookList, { organization }, actor, ports);
    const home = webhooksPath(organization);
    const table = tableOf(items, home, ports.clock.now());
    const known = await listAuditActions(ports.db, organization);
    const data = { table, notice, action: home, form: newForm, entered, known, errors };
    const crumbs = webhookCrumbs(organization);
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, webhooksPage, data, { crumbs, status });
  };

  guard.get('/settings/webhooks', toManage, (visit, request, reply) =>
    show(reply, visit, {
      notice:
        queryText(request, 'done') === 'removed'
          ? 'The webhook is removed and is sent nothing any more.'
          : undefined,
    }),
  );

  guard.post('/settings/webhooks', toManage, async (visit, sent, _request, reply) => {
    const { organization, actor } = visit;
    const entered = newForm.read(sent);
    try {
      const input = { ...newForm.inputOf(entered), organization };
      const made = await perform(webhookCreate, input, actor, ports);
      const data = {
        heading: `Events are sent to ${hostOf(made)} from now on`,
        next: 'Put the secret where they are received: each message is verified by it.',
        secret: oneTimeWebhookSecret(organization, made),
      };
      const crumbs = [...webhookCrumbs(organization), { text: hostOf(made) }];
      return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
    } catch (refusal) {
      return show(reply, visit, { entered, errors: newForm.errorsOf(refusal, entered, 'url') });
    }
  });
}

function tableOf(webhooks: readonly WebhookView[], home: string, now: number): Table {
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

const path = '/settings/webhooks/:webhookId';
const notices: Readonly<Record<string, string>> = {
  saved: 'Saved. It counts for the next event.',
  enabled: 'Enabled. Events are sent again.',
  disabled: 'Disabled. Nothing is sent until it is enabled again.',
};

/** What a page shows besides, or instead of, what is stored. */
interface But {
  readonly entered?: Entered;
  readonly errors?: FieldError[];
  readonly notice?: string | undefined;
  readonly warning?: string | undefined;
}

/** `/settings/webhooks/{webhook}`: deliveries, a test, and settings. */
function pageRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
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
    { entered, errors = [], notice, warning }: But = {},
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
      form: changeForm,
      entered: entered ?? changeForm.filled(webhook),
      known: await listAuditActions(ports.db, visit.organization),
      errors,
      now,
    };
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, webhookPage, data, { crumbs, status });
  };

  guard.get(path, toManage, (visit, request, reply) =>
    show(reply, visit, request, { notice: notices[queryText(request, 'done') ?? ''] }),
  );

  guard.post(path, toManage, async (visit, sent, request, reply) => {
    const entered = changeForm.read(sent);
    try {
      const change = { ...changeForm.inputOf(entered), ...placeOf(visit, request) };
      await perform(webhookUpdate, change, visit.actor, ports);
    } catch (refusal) {
      const errors = changeForm.errorsOf(refusal, entered, 'url');
      return show(reply, visit, request, { entered, errors });
    }
    return seeOther(reply, `${homeOf(visit, request)}?done=saved`);
  });

  guard.post(`${path}/test`, toManage, async (visit, _sent, request, reply) => {
    const place = placeOf(visit, request);
    const { isDelivered, words } = await perform(webhookTest, place, visit.actor, ports);
    const message = isDelivered
      ? { notice: `The test was taken: it ${words}.` }
      : { warning: `The test was not taken: it ${words}.` };
    return show(reply, visit, request, message);
  });

  guard.post(`${path}/rotate`, toManage, async (visit, _sent, request, reply) => {
    const { crumbs } = await read(visit, request);
    const made = await perform(webhookRotate, placeOf(visit, request), visit.actor, ports);
    const data = {
      heading: `The webhook to ${hostOf(made)} has a new secret`,
      next: 'Put it where messages are received, within a day: until then the one before signs as well.',
      secret: oneTimeWebhookSecret(visit.organization, made),
    };
    return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
  });

  guard.post(`${path}/enable`, toManage, async (visit, sent, request, reply) => {
    const from = sent.get('from') === 'now' ? 'now' : 'where_it_stood';
    await perform(webhookEnable, { ...placeOf(visit, request), from }, visit.actor, ports);
    return seeOther(reply, `${homeOf(visit, request)}?done=enabled`);
  });

  questionRoutes(guard, `${path}/disable`, toManage, {
    async ask(visit, request) {
      const { webhook, crumbs } = await read(visit, request);
      return {
        heading: `Disable the webhook to ${hostOf(webhook)}?`,
        consequences: [
          'It receives no events until it is enabled again.',
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

  questionRoutes(guard, `${path}/remove`, toManage, {
    async ask(visit, request) {
      const { webhook, crumbs } = await read(visit, request);
      return {
        heading: `Remove the webhook to ${hostOf(webhook)}?`,
        consequences: [
          'It stops receiving events immediately. This cannot be undone.',
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

/** The secret of a webhook, in the response that creates it. */
function oneTimeWebhookSecret(
  organization: string,
  { id, secret }: { id: string; secret: string },
): OneTimeSecret {
  return {
    label: 'Webhook secret',
    secret,
    kept: 'stores it encrypted, to sign messages',
    again: 'rotate it',
    beside: [{ label: 'Webhook', text: id }],
    keep: 'In the program that receives the messages, or in a password manager.',
    done: `${webhooksPath(organization)}/${id}`,
  };
}

/** The start of the breadcrumb of a webhook’s pages. */
const webhookCrumbs = (organization: string) => [
  { text: 'Settings', href: `${dashboardPath(organization)}/settings` },
  { text: 'Webhooks', href: webhooksPath(organization) },
];

export const webhooksPath = (organization: string) =>
  `${dashboardPath(organization)}/settings/webhooks`;

/** The state of a webhook as a badge. */
function webhookBadge({ status }: WebhookView): Badge {
  switch (status) {
    case 'delivering':
      return { text: 'delivering', tone: 'good' };
    case 'retrying':
      return { text: 'waiting to try again', tone: 'care' };
    case 'disabled':
      return { text: 'disabled', tone: 'bad' };
  }
}

/** The events that it receives. */
function wantedWords({ actions }: WebhookView): string {
  return actions.length === 0 ? 'Every event' : actions.join(', ');
}

/** Only the host, because the path may be a secret, as in chat webhooks. The webhook's own page has the whole URL. */
function hostOf({ url }: WebhookView): string {
  return new URL(url).host;
}

/** Why it is disabled; `undefined` while it is active. */
function disabledWords({ disabledBecause, lastFailure }: WebhookView): string | undefined {
  switch (disabledBecause) {
    case null:
      return undefined;
    case 'asked':
      return 'It receives no events, because a person disabled it. The audit log says who.';
    case 'gone':
      return 'It is sent nothing, as it answered that it is gone for good (410).';
    case 'failing':
      return `It is sent nothing, as it took no event for three days. The last time it ${lastFailure}.`;
  }
}

/** The deliveries of a webhook, for its own page. */
function webhookFacts(webhook: WebhookView, now: EpochSeconds): Fact[] {
  const { status, nextAttemptAt, failingSince, lastFailure, lastFailureAt } = webhook;
  const time = (at: number | null, otherwise = 'Never'): Cell => {
    return { kind: 'time', at: at ?? undefined, otherwise };
  };
  const failure =
    lastFailure === null ? [] : [{ label: 'The last failure', text: `It ${lastFailure}` }];
  return [
    { label: 'Sent to', text: webhook.url },
    { label: 'Events', text: wantedWords(webhook) },
    { label: 'Last taken', cell: time(webhook.lastSuccessAt) },
    ...failure,
    ...(lastFailureAt === null ? [] : [{ label: 'Failed last', cell: time(lastFailureAt) }]),
    ...(status === 'retrying'
      ? [
          { label: 'Failing since', cell: time(failingSince) },
          nextAttemptAt !== null && nextAttemptAt - now >= 60
            ? { label: 'Next try', cell: time(nextAttemptAt) }
            : { label: 'Next try', text: 'Within a minute' },
        ]
      : []),
    ...(webhook.earlierSecretUntil === null
      ? []
      : [{ label: 'The secret before signs as well', cell: time(webhook.earlierSecretUntil) }]),
    { label: 'Created', cell: time(webhook.createdAt) },
  ];
}

interface WebhookFieldsData {
  readonly form: OperationForm;
  readonly entered: Entered;
  readonly known: readonly string[];
  readonly errors: readonly FieldError[];
}

interface WebhooksPageData extends WebhookFieldsData {
  readonly table: Table;
  readonly notice: string | undefined;
  readonly action: string;
}

/** The webhooks of an organization, and a form for a new one. */
function webhooksPage(data: WebhooksPageData, frame: Frame): Html {
  const { action, errors } = data;
  const title = errors.length > 0 ? 'Not made yet' : 'Webhooks';
  const lead =
    'What is written down in the audit log is sent as it happens: to a SIEM, a chat, a script. Each message is signed, and sent again until it is taken.';
  const fields = html`${webhookFields(data)}
<div class="actions"><button class="primary">Create webhook</button></div>`;
  const content = html`${pageHeading({ heading: 'Webhooks', lead })}
${statusNotice(data.notice)}
${errorSummary(errors)}
${dataTable(data.table)}
<section class="section narrow" aria-labelledby="new-heading">
<h2 id="new-heading">New webhook</h2>
${postForm(frame, { action, novalidate: true }, fields)}
</section>`;
  return layout({ title, width: 'table' }, frame, content);
}

function webhookFields({ form, entered, known, errors }: WebhookFieldsData): Html {
  return html`${form.fields(entered, errors, { focus: false })}
${
  known.length > 0 &&
  html`<details>
<summary>Kinds of events that have happened here</summary>
<p class="help"><code>${known.join(' ')}</code></p>
</details>`
}`;
}

interface WebhookPageData extends WebhookFieldsData {
  readonly heading: string;
  readonly badges: readonly Badge[];
  readonly notice: string | undefined;
  /** Why it is disabled, or that the last test failed. */
  readonly warning: string | undefined;
  readonly facts: readonly Fact[];
  readonly home: string;
  readonly status: 'delivering' | 'retrying' | 'disabled';
  readonly now: number;
}

/** One webhook: its deliveries, a test, its settings and its secret. */
function webhookPage(data: WebhookPageData, frame: Frame): Html {
  const { heading, badges, warning, facts, home, errors, now } = data;
  const title = errors.length > 0 ? 'Not saved' : heading;
  const fields = html`${webhookFields(data)}
<div class="actions"><button class="primary">Save</button></div>`;
  const rotate = postForm(
    frame,
    { action: `${home}/rotate` },
    html`<button>Rotate the secret</button>`,
  );
  const content = html`${pageHeading({ heading, badges })}
${warning && html`<p class="notice warning" role="status">${warning}</p>`}
${statusNotice(data.notice)}
${errorSummary(errors)}
${factList(facts, now)}
${deliveriesSection(data, frame)}
<section class="section" aria-labelledby="what-heading">
<h2 id="what-heading">What is sent, and where to</h2>
${postForm(frame, { action: home, novalidate: true }, fields)}
</section>
<section class="section" aria-labelledby="secret-heading">
<h2 id="secret-heading">Secret</h2>
<ul class="rows">
<li>
<div>Make a new one, shown once. For a day the present one signs as well, so that the receiver misses nothing.</div>
${rotate}
</li>
</ul>
</section>
<section class="section" aria-labelledby="remove-heading">
<h2 id="remove-heading">Take it out of use</h2>
<ul class="rows">
<li>
<div>Remove it for good.</div>
<a class="button danger" href="${home}/remove" data-question>Remove the webhook</a>
</li>
</ul>
</section>`;
  return layout({ title, width: 'text' }, frame, content);
}

function deliveriesSection({ home, status }: WebhookPageData, frame: Frame): Html {
  const test = postForm(frame, { action: `${home}/test` }, html`<button>Send a test</button>`);
  const enable = (from: 'where_it_stood' | 'now', verb: string) =>
    postForm(
      frame,
      { action: `${home}/enable` },
      html`${hiddenField('from', from)}<button>${verb}</button>`,
    );
  const retry = html`<li>
<div>Try again now. The next event waits until this one is taken.</div>
${enable('where_it_stood', 'Try again now')}
</li>`;
  const enableChoices = html`<li>
<div>Go on where it stood: all that happened meanwhile is sent.</div>
${enable('where_it_stood', 'Enable, and catch up')}
</li>
<li>
<div>Begin with what happens from now on; what happened meanwhile is left out.</div>
${enable('now', 'Enable from now on')}
</li>`;
  const disable = html`<li>
<div>Send it nothing until it is enabled again.</div>
<a class="button danger" href="${home}/disable" data-question>Disable</a>
</li>`;
  return html`<section class="section" aria-labelledby="deliveries-heading">
<h2 id="deliveries-heading">Deliveries</h2>
<ul class="rows">
<li>
<div>Send an event of the kind <code>webhook.test</code> now, and see what comes back.</div>
${test}
</li>
${status === 'retrying' && retry} ${status === 'disabled' ? enableChoices : disable}
</ul>
</section>`;
}
