import type { FastifyReply } from 'fastify';

import {
  outboundAllow,
  outboundList,
  type OutboundHostView,
  outboundRemove,
} from '#admin/outbound';
import { perform } from '#admin/operation';
import { notFound } from '#admin/refusal';
import { ownsEveryOrganization } from '#db/organizations';
import type { EpochSeconds } from '#model/clock';
import { errorSummary, type FieldError, postForm } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import { breadcrumbOf, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { queryChoice, seeOther, sendPage } from '#web/page-request';
import type { CurrentPerson, PersonGuard } from '#web/page-session';
import { relativeTime } from '#web/tables';
import { type Entered, formFor, type FormState } from './forms.ts';
import { personActor, type PersonFormHandler, type PersonPageHandler } from './guard.ts';
import { dashboardScripts } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';

const path = '/outbound';
const form = formFor(outboundAllow);
const notices: Readonly<Record<string, string>> = {
  allowed: 'Allowed, on all nodes within a second.',
  removed: 'No longer allowed, on all nodes within a second. Requests in progress go on.',
};

/**
 * `/outbound`: the hosts and ranges in private networks that requests may reach. For people who do not own every organization, it does
 * not exist.
 */
export function outboundRoutes(guard: PersonGuard<DashboardOptions>): void {
  guard.get(path, showHosts);
  guard.post(path, allowHost);
  guard.post(`${path}/remove`, removeHost);
}

/** @throws {AdministrationRefusal} `not_found` */
async function requireOperator({ user }: CurrentPerson, { db }: DashboardPorts): Promise<void> {
  if (!(await ownsEveryOrganization(db, user.id))) throw notFound('page');
}

const showHosts: PersonPageHandler = async (person, request, reply, { ports }) => {
  await requireOperator(person, ports);
  const { items } = await perform(outboundList, {}, personActor(person, request), ports);
  return sendHosts(person, reply, items, { notice: queryChoice(request, 'done', notices) }, ports);
};

const allowHost: PersonFormHandler = async (person, sent, request, reply, { ports }) => {
  await requireOperator(person, ports);
  const actor = personActor(person, request);
  const refused = await form.submit({ sent, conflict: 'host' }, (input) =>
    perform(outboundAllow, input, actor, ports),
  );
  if (!refused) return seeOther(reply, `${path}?done=allowed`);
  const { items } = await perform(outboundList, {}, actor, ports);
  return sendHosts(person, reply, items, refused, ports);
};

const removeHost: PersonFormHandler = async (person, sent, request, reply, { ports }) => {
  await requireOperator(person, ports);
  const input = { host: sent.get('host') ?? '' };
  await perform(outboundRemove, input, personActor(person, request), ports);
  return seeOther(reply, `${path}?done=removed`);
};

function sendHosts(
  person: CurrentPerson,
  reply: FastifyReply,
  items: readonly OutboundHostView[],
  { entered = form.blank, errors = [], notice }: FormState,
  { fixedOutboundHosts: fixed, clock }: DashboardPorts,
): FastifyReply {
  const data = { items, fixed, entered, errors, notice, now: clock.now() };
  return sendPage(reply, outboundPage, data, { person, scripts: dashboardScripts() });
}

interface OutboundPageData {
  readonly items: readonly OutboundHostView[];
  /** The hosts in the options of the server, which only a restart changes. */
  readonly fixed: readonly string[];
  readonly entered: Entered;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
  readonly now: EpochSeconds;
}

function outboundPage(data: OutboundPageData, frame: Frame): Html {
  const { items, fixed, entered, errors, now } = data;
  const lead =
    'URLs that administrators enter reach the public internet only. Allow hosts and ranges of your own network here, for all organizations of this installation.';
  const heading = 'Outbound hosts';
  const content = html`${breadcrumbOf([{ text: 'Organizations', href: '/organizations' }, { text: heading }])}
${pageHeading({ heading, lead })}
${statusNotice(data.notice)}
${errorSummary(errors)}
${
  items.length + fixed.length === 0
    ? html`<p class="lead">None yet: private addresses are refused.</p>`
    : html`<ul class="rows">
${items.map(
  ({ host, note, createdAt }) => html`<li><div><code>${host}</code>
<p class="help">${note !== '' && html`<span dir="auto">${displayName(note, 200)}</span> · `}allowed ${relativeTime(createdAt, now)}</p></div>
${postForm(frame, { action: `${path}/remove` }, html`<input type="hidden" name="host" value="${host}"><button class="danger" aria-label="Remove ${host}">Remove</button>`)}</li>`,
)}
${fixed.map((host) => html`<li><div><code>${host}</code><p class="help">Set with <code>--outbound-host</code> when the server starts</p></div></li>`)}
</ul>`
}
<section class="section" aria-labelledby="allow-heading">
<h2 id="allow-heading">Allow a host or range</h2>
${postForm(
  frame,
  { action: path, novalidate: true },
  html`${form.fields(entered, errors, { focus: false })}
<div class="actions"><button class="primary">Allow</button></div>`,
)}
<p class="help">Administrators of every organization can then let Latchkey call these addresses, also over plain HTTP. Prefer a host with its port to a range.</p>
</section>`;
  return layout(
    { title: errors.length > 0 ? 'Not allowed yet' : heading, width: 'text' },
    frame,
    content,
  );
}
