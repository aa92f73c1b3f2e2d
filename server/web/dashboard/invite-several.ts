import { groupList } from '#admin/groups';
import { invitationImport, invitationPreview } from '#admin/invitation-batches';
import { roleChoices } from '#admin/people';
import { errorSummary, type FieldError, formActions, hiddenField, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { dashboardPath, type Frame, layout, pageHeading } from '#web/layout';
import { seeOther } from '#web/page-request';
import { dataTable, type Table } from '#web/tables';
import { type Entered, formFor } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { linksPage, skippedList } from './invitation-links.ts';
import { invitationsPath, recipientWords } from './invitations.ts';
import { mailServerOf } from './mail.ts';
import { sendDashboardPage } from './page.ts';
import { peopleCrumbs } from './people.ts';
import { counted } from './questions.ts';
import type { DashboardOptions } from './ports.ts';
import type { FastifyReply } from 'fastify';

const needs = 'people.manage';
const path = '/people/invite-several';
const form = formFor(invitationImport);

/** `/people/invite-several`: reads a list of people, shows a preview, invites them, and shows their links once. */
export function inviteSeveralRoutes(guard: DashboardGuard): void {
  guard.get(path, needs, showForm);
  guard.post(path, needs, takeList);
}

const showForm: PageHandler = (visit, request, reply, options) =>
  sendForm(visit, request, reply, { entered: form.blank, errors: [] }, options);

/** The form has a button for each step: check the list, change it, and invite. */
const takeList: FormHandler = async (visit, sent, request, reply, options) => {
  const entered = form.read(sent);
  if (sent.has('change')) return sendForm(visit, request, reply, { entered, errors: [] }, options);
  try {
    const input = form.inputOf(entered);
    if (sent.has('send')) return await inviteByMail(visit, input, reply);
    if (sent.has('invite')) return await invite(visit, input, reply, options);
    return await sendPreview(visit, entered, input, reply, options);
  } catch (refusal) {
    const errors = form.errorsOf(refusal, entered, 'list');
    return sendForm(visit, request, reply, { entered, errors }, options);
  }
};

async function sendForm(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  { entered, errors }: { readonly entered: Entered; readonly errors: readonly FieldError[] },
  _options: DashboardOptions,
): Promise<FastifyReply> {
  const { perform, may, organization } = visit;
  const { items } = await perform(groupList);
  const fields = form.fields(entered, errors, {
    only: ['list', 'role', 'group'],
    here: {
      role: { choices: roleChoices(may('owners.manage')) },
      group: { choices: items.map(({ id, name }) => ({ value: id, text: name })) },
    },
  });
  const data = {
    action: request.url,
    single: `${dashboardPath(organization)}/people/invite`,
    cancel: invitationsPath(organization),
    fields,
    errors,
  };
  return sendDashboardPage(reply, visit, formPage, data, { crumbs: crumbsOf(organization) });
}

function crumbsOf(organization: string) {
  return peopleCrumbs(organization, { text: 'Invite people' });
}

interface FormPageData {
  readonly action: string;
  /** The page that invites one person. */
  readonly single: string;
  readonly cancel: string;
  readonly fields: Html;
  readonly errors: readonly FieldError[];
}

function formPage({ action, single, cancel, fields, errors }: FormPageData, frame: Frame): Html {
  const heading = 'Invite people';
  const lead =
    'Paste addresses or a CSV file. You see what it says before anyone is invited; each person then gets a link of their own, which expires after seven days. Anyone with the link can use it, under any address.';
  const content = html`${pageHeading({ heading, lead })}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, html`${fields} ${formActions('Check list', cancel)}`)}
<p class="help">A link for someone without an address: <a href="${single}">invite one person</a>.</p>`;
  const title = errors.length > 0 ? 'No one invited yet' : heading;
  return layout({ title, width: 'text' }, frame, content);
}

async function sendPreview(
  visit: DashboardVisit,
  entered: Entered,
  input: Readonly<Record<string, unknown>>,
  reply: FastifyReply,
  { ports }: DashboardOptions,
): Promise<FastifyReply> {
  const { send: _, ...list } = input;
  const { items, skipped, ignoredColumns } = await visit.perform(invitationPreview, list);
  const server = await mailServerOf(visit, ports);
  const table: Table = {
    caption: 'People to invite',
    columns: ['E-mail address', 'Role', 'Groups'],
    rows: items.map(({ line, email, note, role, groups }) => ({
      id: `line-${line}-${email}`,
      cells: [
        { kind: 'name', text: email, note: note || undefined },
        { kind: 'text', text: role },
        { kind: 'text', text: groups.join(', ') },
      ],
    })),
    empty: { text: 'No one in the list is new.' },
    now: ports.clock.now(),
  };
  const data = {
    action: `${dashboardPath(visit.organization)}${path}`,
    count: items.length,
    skipped,
    ignoredColumns,
    table,
    kept: keptFields(entered),
    from: server?.from,
  };
  return sendDashboardPage(reply, visit, previewPage, data, {
    crumbs: crumbsOf(visit.organization),
  });
}

function keptFields(entered: Entered): readonly Html[] {
  return Object.entries(entered).flatMap(([name, value]) => {
    if (typeof value === 'string') return [hiddenField(name, value)];
    if (typeof value === 'boolean') return value ? [hiddenField(name, 'yes')] : [];
    return value.map((one) => hiddenField(`${name}.${one}`, one));
  });
}

interface PreviewPageData {
  readonly action: string;
  /** How many people would be invited. */
  readonly count: number;
  readonly skipped: Parameters<typeof skippedList>[0];
  readonly ignoredColumns: readonly string[];
  readonly table: Table;
  readonly kept: readonly Html[];
  /** The address that mails come from, if there is a mail server. */
  readonly from: string | undefined;
}

function previewPage(data: PreviewPageData, frame: Frame): Html {
  const { action, count, skipped, ignoredColumns, table, kept, from } = data;
  const heading = `Invite ${counted(count, 'person', 'people')}?`;
  const verb = `Invite ${counted(count, 'person', 'people')}`;
  const buttons = html`${kept}<div class="actions">${count > 0 && inviteButtons(verb, from)}<button name="change" value="yes">Change list</button></div>`;
  const content = html`${pageHeading({ heading, lead: 'No one is invited yet. All of them are invited at once, or none.' })}
${ignoredColumns.length > 0 && html`<p class="notice warning">${counted(ignoredColumns.length, 'column is', 'columns are')} not used: ${ignoredColumns.join(', ')}.</p>`}
${skipped.length > 0 && skippedList(skipped)}
${postForm(frame, { action }, buttons)}
${dataTable(table)}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

function inviteButtons(verb: string, from: string | undefined): Html {
  if (from === undefined)
    return html`<button class="primary" name="invite" value="yes">${verb}</button>`;
  return html`<button class="primary" name="send" value="yes">${verb} by e-mail</button><button name="invite" value="yes">Invite and show links</button>`;
}

/** Invites everyone in the list, and lets the mail server send the links, which are not shown. */
async function inviteByMail(
  visit: DashboardVisit,
  input: Readonly<Record<string, unknown>>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  await visit.perform(invitationImport, { ...input, send: true });
  return seeOther(reply, `${invitationsPath(visit.organization)}?done=sending`);
}

async function invite(
  visit: DashboardVisit,
  input: Readonly<Record<string, unknown>>,
  reply: FastifyReply,
  { base }: DashboardOptions,
): Promise<FastifyReply> {
  const { organization, perform } = visit;
  const { items, skipped } = await perform(invitationImport, input);
  const data = {
    heading: `${counted(items.length, 'person', 'people')} invited`,
    links: items.map((one) => ({
      recipient: recipientWords(one),
      role: one.role,
      link: base + one.path,
    })),
    skipped,
    done: invitationsPath(organization),
  };
  return sendDashboardPage(reply, visit, linksPage, data, { crumbs: crumbsOf(organization) });
}
