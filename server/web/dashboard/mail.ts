import type { FastifyReply } from 'fastify';

import {
  mailList,
  mailRetry,
  mailServerRead,
  mailServerRemove,
  mailServerSet,
  type MailServerView,
  mailTest,
  type MailView,
} from '#admin/mail';
import { AdministrationRefusal } from '#admin/refusal';
import { findMailServer } from '#db/mail';
import { findOrganization } from '#db/organizations';
import type { EpochSeconds } from '#model/clock';
import { errorSummary, type FieldError, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  type Badge,
  dashboardPath,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
} from '#web/layout';
import { queryChoice, seeOther } from '#web/page-request';
import {
  dataTable,
  type Fact,
  factList,
  pager,
  type ListFrame,
  type Table,
  timeCell,
} from '#web/tables';
import { type Entered, formFor, type FormState } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { listQuery } from './lists.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { counted, questionRoutes, type Question } from './questions.ts';

const path = '/settings/mail';
const form = formFor(mailServerSet);
const notices: Readonly<Record<string, string>> = {
  saved: 'Saved. Send a test to see whether it works.',
  removed: 'Mail server removed. Invitations are shown as links again.',
  retried: 'Trying again now.',
};

/** `/settings/mail`: the mail server of an organization, a test, and the mails that wait or were sent. */
export function mailRoutes(guard: DashboardGuard): void {
  guard.get(path, 'mail.read', showMail);
  guard.post(path, 'mail.manage', saveServer);
  guard.post(`${path}/test`, 'mail.manage', sendTest);
  guard.post(`${path}/retry`, 'people.manage', retry);
  questionRoutes(guard, `${path}/remove`, 'mail.manage', removal);
}

export function mailPath(organization: string): string {
  return dashboardPath(organization) + path;
}

function crumbsOf(organization: string) {
  return [
    { text: 'Settings', href: `${dashboardPath(organization)}/settings` },
    { text: 'Mail server' },
  ];
}

/** The mail server of an organization; `undefined` if none is set up. */
export async function mailServerOf(
  { organization, perform }: Pick<DashboardVisit, 'organization' | 'perform'>,
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<MailServerView | undefined> {
  const found = await findOrganization(db, organization);
  // An operation that finds nothing is refused, which the audit log records, but nothing is denied here.
  if (!found || !(await findMailServer(db, found.id))) return undefined;
  try {
    return await perform(mailServerRead);
  } catch (refusal) {
    if (refusal instanceof AdministrationRefusal && refusal.code === 'not_found') return undefined;
    throw refusal;
  }
}

async function sendMail(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  { entered, errors = [], notice, warning }: FormState,
  { clock, db }: DashboardPorts,
) {
  const { organization, perform, may, person } = visit;
  const server = await mailServerOf(visit, { db });
  const usual = { sort: 'created_at', order: 'desc' } as const;
  const query = listQuery(request, { states: [{ value: '', text: 'All' }], columns: [], usual });
  const { page, limit } = query.input;
  const { items, total } = await perform(mailList, { page, limit });
  const now = clock.now();
  const data = {
    home: mailPath(organization),
    server,
    facts: server ? serverFacts(server) : [],
    mayManage: may('mail.manage'),
    address: person.user.email,
    entered: entered ?? (server ? form.filled({ ...server, user: server.user ?? '' }) : form.blank),
    errors,
    notice,
    warning: warning ?? (server && failureWords(server)),
    table: {
      caption: 'Waiting e-mails, and those of the last 30 days',
      columns: ['To', 'About', 'Status', 'Queued', 'Sent or refused'],
      rows: items.map(mailRow),
      empty: { text: 'No e-mails yet. Invitations and notices appear here once they are queued.' },
      now,
    },
    list: query.frame(total),
    now,
  };
  return sendDashboardPage(reply, visit, mailPage, data, { crumbs: crumbsOf(organization) });
}

function serverFacts({ mails, lastSuccessAt }: MailServerView): readonly Fact[] {
  return [
    { label: 'Waiting', text: String(mails.waiting) },
    { label: 'Sent in 30 days', text: String(mails.sent) },
    { label: 'Refused in 30 days', text: String(mails.refused) },
    { label: 'Last used', cell: timeCell(lastSuccessAt, 'Never') },
  ];
}

function failureWords({ lastFailure, nextAttemptAt }: MailServerView): string | undefined {
  if (lastFailure === null || nextAttemptAt === null) return undefined;
  return `No e-mail can be sent: the server ${lastFailure}. Latchkey keeps trying.`;
}

const kindWords = { invitation: 'Invitation', reminder: 'Reminder', notice: 'Notice' } as const;
export const mailBadges: Readonly<Record<MailView['status'], Badge>> = {
  waiting: { text: 'Waiting', tone: 'care' },
  sent: { text: 'Sent', tone: 'good' },
  refused: { text: 'Refused', tone: 'bad' },
};

function mailRow(mail: MailView): Table['rows'][number] {
  const { id, recipient, kind, status, answer, createdAt, endedAt } = mail;
  // The answer of a server that accepted the mail is of no interest.
  const reason = status === 'sent' || answer === null ? undefined : `The server ${answer}.`;
  return {
    id,
    cells: [
      { kind: 'name', text: recipient },
      { kind: 'text', text: kindWords[kind] },
      { kind: 'status', status: mailBadges[status], reason },
      timeCell(createdAt),
      timeCell(endedAt),
    ],
  };
}

const showMail: PageHandler = (visit, request, reply, { ports }) =>
  sendMail(visit, request, reply, { notice: queryChoice(request, 'done', notices) }, ports);

const saveServer: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const refused = await form.submit({ sent }, (input) => visit.perform(mailServerSet, input));
  if (refused) return sendMail(visit, request, reply, refused, ports);
  return seeOther(reply, `${mailPath(visit.organization)}?done=saved`);
};

const sendTest: FormHandler = async (visit, _sent, request, reply, { ports }) => {
  const { isSent, to, words } = await visit.perform(mailTest);
  const message = isSent
    ? { notice: `Test sent to ${to}: the server ${words}.` }
    : { warning: `Test not sent: the server ${words}.` };
  return sendMail(visit, request, reply, message, ports);
};

const retry: FormHandler = async (visit, _sent, _request, reply) => {
  await visit.perform(mailRetry);
  return seeOther(reply, `${mailPath(visit.organization)}?done=retried`);
};

const removal: Question = {
  async ask({ organization, perform }) {
    const { host, mails } = await perform(mailServerRead);
    return {
      heading: `Remove the mail server ${host}?`,
      consequences: [
        'Invitations and reminders are no longer sent; you pass the links on yourself.',
        'Notices are no longer sent by e-mail.',
        ...(mails.waiting > 0 ? [`${counted(mails.waiting, 'mail')} that wait are deleted.`] : []),
      ],
      verb: 'Remove mail server',
      cancel: mailPath(organization),
      crumbs: crumbsOf(organization),
    };
  },
  async act({ organization, perform }) {
    await perform(mailServerRemove);
    return `${mailPath(organization)}?done=removed`;
  },
};

interface MailPageData {
  readonly home: string;
  readonly server: MailServerView | undefined;
  readonly facts: readonly Fact[];
  readonly mayManage: boolean;
  /** Where tests are sent. */
  readonly address: string;
  readonly entered: Entered;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
  readonly warning: string | undefined;
  readonly table: Table;
  readonly list: ListFrame;
  readonly now: EpochSeconds;
}

function mailPage(data: MailPageData, frame: Frame): Html {
  const { home, server, facts, mayManage, entered, errors, table, list } = data;
  const lead =
    'Sends invitations, reminders and notices of this organization by SMTP. Without it, you pass links on yourself.';
  const title = errors.length > 0 ? 'Not saved' : 'Mail server';
  const content = html`${pageHeading({ heading: 'Mail server', lead })}
${statusNotice(data.notice)}
${data.warning && html`<p class="notice warning" role="alert">${data.warning}</p>`}
${errorSummary(errors)}
${server && factList(facts, data.now)}
${server && mailActions(data, frame)}
${
  mayManage
    ? html`<section class="section narrow" aria-labelledby="server-heading">
<h2 id="server-heading">${server ? 'Settings' : 'Set up'}</h2>
${postForm(
  frame,
  { action: home, novalidate: true },
  html`${form.fields(entered, errors, { focus: !server })}
<div class="actions"><button class="primary">Save</button></div>`,
)}
</section>`
    : html`<p class="help">Only an owner can change the mail server, because it sees every invitation.</p>`
}
<section class="section" aria-labelledby="mails-heading">
<h2 id="mails-heading">E-mails</h2>
${dataTable(table)}
${pager(list)}
</section>`;
  return layout({ title, width: 'table' }, frame, content);
}

function mailActions({ home, server, mayManage, address }: MailPageData, frame: Frame): Html {
  const mails = server?.mails.waiting ?? 0;
  return html`<div class="actions">
${mayManage && postForm(frame, { action: `${home}/test` }, html`<button>Send test to ${address}</button>`)}
${mails > 0 && postForm(frame, { action: `${home}/retry` }, html`<button>Try ${counted(mails, 'waiting mail')} now</button>`)}
${mayManage && html`<a class="button danger" href="${home}/remove" data-question>Remove</a>`}
</div>`;
}
