import type { FastifyReply } from 'fastify';

import { noticesRead, noticesSet, type NoticesView } from '#admin/notices';
import { errorSummary, type FieldError, postForm } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import { dashboardPath, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { queryChoice, seeOther } from '#web/page-request';
import { type Entered, formFor, type FormState } from './forms.ts';
import type { DashboardGuard, DashboardVisit, FormHandler, PageHandler } from './guard.ts';
import { mailPath } from './mail.ts';
import { sendDashboardPage } from './page.ts';
import { webhooksPath } from './webhooks.ts';

const path = '/settings/notices';
const needs = 'notice.manage';
const form = formFor(noticesSet);
const done: Readonly<Record<string, string>> = { saved: 'Saved.' };

/** `/settings/notices`: which notices a person gets by e-mail. */
export function noticeRoutes(guard: DashboardGuard): void {
  guard.get(path, needs, showNotices);
  guard.post(path, needs, saveNotices);
}

export function noticesPath(organization: string): string {
  return dashboardPath(organization) + path;
}

async function sendNotices(
  visit: DashboardVisit,
  reply: FastifyReply,
  { entered, errors = [], notice }: FormState,
) {
  const { organization, perform, may } = visit;
  const view = await perform(noticesRead);
  const { frequency, kinds, offered } = view;
  // While the frequency is `never`, every kind is ticked, so that the person only has to choose a frequency.
  const stored = form.filled({ frequency, kinds: frequency === 'never' ? offered : kinds });
  const data = {
    view,
    home: noticesPath(organization),
    mail: may('mail.manage') ? mailPath(organization) : undefined,
    webhooks: may('webhook.manage') ? webhooksPath(organization) : undefined,
    entered: entered ?? stored,
    errors,
    notice,
  };
  const crumbs = [
    { text: 'Settings', href: `${dashboardPath(organization)}/settings` },
    { text: 'Your notices' },
  ];
  return sendDashboardPage(reply, visit, noticesPage, data, { crumbs });
}

const showNotices: PageHandler = (visit, request, reply) =>
  sendNotices(visit, reply, { notice: queryChoice(request, 'done', done) });

const saveNotices: FormHandler = async (visit, sent, _request, reply) => {
  const refused = await form.submit({ sent }, (input) =>
    // If no box is ticked, no kind is chosen. Without `kinds`, the stored ones would stay.
    visit.perform(noticesSet, { ...input, kinds: input['kinds'] ?? [] }),
  );
  if (refused) return sendNotices(visit, reply, refused);
  return seeOther(reply, `${noticesPath(visit.organization)}?done=saved`);
};

interface NoticesPageData {
  readonly view: NoticesView;
  readonly home: string;
  /** For people who may set up a mail server. */
  readonly mail: string | undefined;
  readonly webhooks: string | undefined;
  readonly entered: Entered;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
}

function noticesPage(data: NoticesPageData, frame: Frame): Html {
  const { view, home, mail, webhooks, entered, errors } = data;
  const lead = `Sent to ${displayName(view.email)} when something needs attention. Nothing is reported twice. Every owner and admin chooses their own notices.`;
  const content = html`${pageHeading({ heading: 'Your notices', lead })}
${statusNotice(data.notice)}
${errorSummary(errors)}
${
  !view.hasMailServer &&
  html`<p class="notice warning">No e-mail is sent, because no mail server is set up. ${mail ? html`<a href="${mail}">Set one up</a>` : 'Ask an owner to set one up.'}</p>`
}
${postForm(
  frame,
  { action: home, novalidate: true },
  html`${form.fields(entered, errors, { focus: false })}
<div class="actions"><button class="primary">Save</button></div>`,
)}
${
  webhooks &&
  html`<p class="help">To notify a chat or another program, use a <a href="${webhooks}">webhook</a>: it gets the same notices as events whose names begin with <code>attention.</code>, for example <code>attention.server-failing</code>.</p>`
}`;
  return layout(
    { title: errors.length > 0 ? 'Not saved' : 'Your notices', width: 'text' },
    frame,
    content,
  );
}
