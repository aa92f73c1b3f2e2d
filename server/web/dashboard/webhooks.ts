import type { FastifyReply } from 'fastify';
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
import type { EpochSeconds } from '#model/clock';
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
import { queryChoice, seeOther } from '#web/page-request';
import { dataTable, type Fact, factList, type Table, timeCell } from '#web/tables';
import { type Entered, formFor, type OperationForm, type FormState } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { questionRoutes, type Question } from './questions.ts';

/** `/settings/webhooks`: the webhooks of an organization, and for each its deliveries, a test and settings. */
export function webhookRoutes(guard: DashboardGuard): void {
  guard.get(list, toManage, showWebhooks);
  guard.post(list, toManage, createWebhook);
  guard.get(path, toManage, showWebhook);
  guard.post(path, toManage, saveWebhook);
  guard.post(`${path}/test`, toManage, testWebhook);
  guard.post(`${path}/rotate`, toManage, rotateSecret);
  guard.post(`${path}/enable`, toManage, enableWebhook);
  questionRoutes(guard, `${path}/disable`, toManage, disabling);
  questionRoutes(guard, `${path}/remove`, toManage, removal);
}

const list = '/settings/webhooks';
const path = `${list}/:webhookId`;
const toManage = 'webhook.manage';
const newForm = formFor(webhookCreate);
const changeForm = formFor(webhookUpdate);
const listNotices: Readonly<Record<string, string>> = { removed: 'Webhook removed.' };
const notices: Readonly<Record<string, string>> = {
  saved: 'Saved. The change takes effect on the next event.',
  enabled: 'Webhook enabled.',
  disabled: 'Webhook disabled. It receives no events until you enable it again.',
};

/** Sends the list, with the form for a new webhook. */
async function sendWebhooks(
  visit: DashboardVisit,
  reply: FastifyReply,
  { entered = newForm.blank, errors = [], notice }: FormState,
  ports: DashboardPorts,
) {
  const { organization } = visit;
  const { items } = await visit.perform(webhookList);
  const home = webhooksPath(organization);
  const table = tableOf(items, home, ports.clock.now());
  const known = await listAuditActions(ports.db, organization);
  const data = { table, notice, action: home, form: newForm, entered, known, errors };
  const crumbs = webhookCrumbs(organization);
  return sendDashboardPage(reply, visit, webhooksPage, data, { crumbs });
}

const showWebhooks: PageHandler = (visit, request, reply, { ports }) =>
  sendWebhooks(visit, reply, { notice: queryChoice(request, 'done', listNotices) }, ports);

const createWebhook: FormHandler = async (visit, sent, _request, reply, { ports }) => {
  const { organization } = visit;
  const entered = newForm.read(sent);
  try {
    const made = await visit.perform(webhookCreate, newForm.inputOf(entered));
    const data = {
      heading: `Webhook to ${hostOf(made)} created`,
      next: 'The receiver verifies each message with this secret.',
      secret: oneTimeWebhookSecret(organization, made),
    };
    const crumbs = [...webhookCrumbs(organization), { text: hostOf(made) }];
    return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
  } catch (refusal) {
    const errors = newForm.errorsOf(refusal, entered, 'url');
    return sendWebhooks(visit, reply, { entered, errors }, ports);
  }
};

function tableOf(webhooks: readonly WebhookView[], home: string, now: number): Table {
  return {
    caption: 'Webhooks',
    columns: ['URL', 'Events', 'Last delivered', 'Created'],
    rows: webhooks.map((one) => ({
      id: one.id,
      isOver: one.status === 'disabled',
      cells: [
        { kind: 'name', text: hostOf(one), href: `${home}/${one.id}`, badges: [webhookBadge(one)] },
        { kind: 'text', text: wantedWords(one) },
        timeCell(one.lastSuccessAt, 'Never'),
        timeCell(one.createdAt),
      ],
    })),
    empty: { text: 'No webhooks yet. Events stay in the audit log and are not sent anywhere.' },
    now,
  };
}

function placeOf({ params }: DashboardRequest) {
  return { webhookId: params['webhookId'] ?? '' };
}

function homeOf({ organization }: DashboardVisit, request: DashboardRequest) {
  return `${webhooksPath(organization)}/${placeOf(request).webhookId}`;
}

async function read(visit: DashboardVisit, request: DashboardRequest) {
  const webhook = await visit.perform(webhookRead, placeOf(request));
  const crumbs = [...webhookCrumbs(visit.organization), { text: hostOf(webhook) }];
  return { webhook, crumbs };
}

/** Sends the page of one webhook. */
async function sendWebhook(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  { entered, errors = [], notice, warning }: FormState,
  ports: DashboardPorts,
) {
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
  return sendDashboardPage(reply, visit, webhookPage, data, { crumbs });
}

const showWebhook: PageHandler = (visit, request, reply, { ports }) =>
  sendWebhook(visit, request, reply, { notice: queryChoice(request, 'done', notices) }, ports);

const saveWebhook: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const refused = await changeForm.submit({ sent, conflict: 'url' }, (input) =>
    visit.perform(webhookUpdate, { ...input, ...placeOf(request) }),
  );
  if (refused) return sendWebhook(visit, request, reply, refused, ports);
  return seeOther(reply, `${homeOf(visit, request)}?done=saved`);
};

const testWebhook: FormHandler = async (visit, _sent, request, reply, { ports }) => {
  const place = placeOf(request);
  const { isDelivered, words } = await visit.perform(webhookTest, place);
  const message = isDelivered
    ? { notice: `Test delivered: the receiver ${words}.` }
    : { warning: `Test failed: the receiver ${words}.` };
  return sendWebhook(visit, request, reply, message, ports);
};

const rotateSecret: FormHandler = async (visit, _sent, request, reply) => {
  const { crumbs } = await read(visit, request);
  const made = await visit.perform(webhookRotate, placeOf(request));
  const data = {
    heading: `New secret for the webhook to ${hostOf(made)}`,
    next: 'Enter it at the receiver within a day. Until then, messages are also signed with the previous secret.',
    secret: oneTimeWebhookSecret(visit.organization, made),
  };
  return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
};

const enableWebhook: FormHandler = async (visit, sent, request, reply) => {
  const from = sent.get('from') === 'now' ? 'now' : 'where_it_stood';
  await visit.perform(webhookEnable, { ...placeOf(request), from });
  return seeOther(reply, `${homeOf(visit, request)}?done=enabled`);
};

const disabling: Question = {
  async ask(visit, request) {
    const { webhook, crumbs } = await read(visit, request);
    return {
      heading: `Disable webhook to ${hostOf(webhook)}?`,
      consequences: [
        'It receives no events until you enable it again.',
        'New events stay in the audit log. When you enable the webhook, you can choose to send them.',
      ],
      verb: 'Disable webhook',
      cancel: homeOf(visit, request),
      crumbs,
    };
  },
  async act(visit, request) {
    await visit.perform(webhookDisable, placeOf(request));
    return `${homeOf(visit, request)}?done=disabled`;
  },
};

const removal: Question = {
  async ask(visit, request) {
    const { webhook, crumbs } = await read(visit, request);
    return {
      heading: `Remove webhook to ${hostOf(webhook)}?`,
      consequences: [
        'It stops receiving events immediately. This cannot be undone.',
        'Undelivered events are not sent. They stay in the audit log.',
      ],
      verb: 'Remove webhook',
      cancel: homeOf(visit, request),
      crumbs,
    };
  },
  async act(visit, request) {
    await visit.perform(webhookRemove, placeOf(request));
    return `${webhooksPath(visit.organization)}?done=removed`;
  },
};

/** The secret of a webhook, for the response that creates or rotates it. */
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
function webhookCrumbs(organization: string) {
  return [
    { text: 'Settings', href: `${dashboardPath(organization)}/settings` },
    { text: 'Webhooks', href: webhooksPath(organization) },
  ];
}

export const webhooksPath = (organization: string) =>
  `${dashboardPath(organization)}/settings/webhooks`;

function webhookBadge({ status }: WebhookView): Badge {
  switch (status) {
    case 'delivering':
      return { text: 'Delivering', tone: 'good' };
    case 'retrying':
      return { text: 'Retrying', tone: 'care' };
    case 'disabled':
      return { text: 'Disabled', tone: 'bad' };
  }
}

/** The events that it receives. */
function wantedWords({ actions }: WebhookView): string {
  return actions.length === 0 ? 'All events' : actions.join(', ');
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
      return 'Disabled by a person. The audit log shows who disabled it. It receives no events.';
    case 'gone':
      return 'Disabled because the receiver answered 410 Gone. It receives no events.';
    case 'failing':
      return `Disabled because delivery failed for three days. Last failure: the receiver ${lastFailure}. It receives no events.`;
  }
}

/** The facts about a webhook, for its own page. */
function webhookFacts(webhook: WebhookView, now: EpochSeconds): Fact[] {
  const { status, nextAttemptAt, failingSince, lastFailure, lastFailureAt } = webhook;
  const failure =
    lastFailure === null ? [] : [{ label: 'Last failure', text: `The receiver ${lastFailure}` }];
  return [
    { label: 'URL', text: webhook.url },
    { label: 'Events', text: wantedWords(webhook) },
    { label: 'Last delivered', cell: timeCell(webhook.lastSuccessAt, 'Never') },
    ...failure,
    ...(lastFailureAt === null
      ? []
      : [{ label: 'Last failed', cell: timeCell(lastFailureAt, 'Never') }]),
    ...(status === 'retrying'
      ? [
          { label: 'Failing since', cell: timeCell(failingSince, 'Never') },
          nextAttemptAt !== null && nextAttemptAt - now >= 60
            ? { label: 'Next attempt', cell: timeCell(nextAttemptAt, 'Never') }
            : { label: 'Next attempt', text: 'Within a minute' },
        ]
      : []),
    ...(webhook.earlierSecretUntil === null
      ? []
      : [
          { label: 'Previous secret expires', cell: timeCell(webhook.earlierSecretUntil, 'Never') },
        ]),
    { label: 'Created', cell: timeCell(webhook.createdAt, 'Never') },
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
  const title = errors.length > 0 ? 'Not created yet' : 'Webhooks';
  const lead =
    'A webhook sends audit events as they happen, for example to a SIEM, a chat or a script. Each message is signed and retried until the receiver accepts it.';
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
<summary>Events recorded in this organization</summary>
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
    html`<button>Rotate secret</button>`,
  );
  const content = html`${pageHeading({ heading, badges })}
${warning && html`<p class="notice warning" role="status">${warning}</p>`}
${statusNotice(data.notice)}
${errorSummary(errors)}
${factList(facts, now)}
${deliveriesSection(data, frame)}
<section class="section" aria-labelledby="what-heading">
<h2 id="what-heading">URL and events</h2>
${postForm(frame, { action: home, novalidate: true }, fields)}
</section>
<section class="section" aria-labelledby="secret-heading">
<h2 id="secret-heading">Secret</h2>
<ul class="rows">
<li>
<div>Create a new secret, shown once. For one day, messages are also signed with the current secret, so that the receiver misses nothing.</div>
${rotate}
</li>
</ul>
</section>
<section class="section" aria-labelledby="remove-heading">
<h2 id="remove-heading">Remove webhook</h2>
<ul class="rows">
<li>
<div>Remove this webhook. This cannot be undone.</div>
<a class="button danger" href="${home}/remove" data-question>Remove webhook</a>
</li>
</ul>
</section>`;
  return layout({ title, width: 'text' }, frame, content);
}

function deliveriesSection({ home, status }: WebhookPageData, frame: Frame): Html {
  const test = postForm(frame, { action: `${home}/test` }, html`<button>Send test event</button>`);
  const enable = (from: 'where_it_stood' | 'now', verb: string) =>
    postForm(
      frame,
      { action: `${home}/enable` },
      html`${hiddenField('from', from)}<button>${verb}</button>`,
    );
  const retry = html`<li>
<div>Retry the failed event now. Later events wait until it is delivered.</div>
${enable('where_it_stood', 'Retry now')}
</li>`;
  const enableChoices = html`<li>
<div>Send all events that happened while the webhook was disabled.</div>
${enable('where_it_stood', 'Enable and send missed events')}
</li>
<li>
<div>Send only new events and skip those that happened while the webhook was disabled.</div>
${enable('now', 'Enable and skip missed events')}
</li>`;
  const disable = html`<li>
<div>Stop sending events until you enable the webhook again.</div>
<a class="button danger" href="${home}/disable" data-question>Disable</a>
</li>`;
  return html`<section class="section" aria-labelledby="deliveries-heading">
<h2 id="deliveries-heading">Deliveries</h2>
<ul class="rows">
<li>
<div>Send a <code>webhook.test</code> event now and show the response.</div>
${test}
</li>
${status === 'retrying' && retry} ${status === 'disabled' ? enableChoices : disable}
</ul>
</section>`;
}
