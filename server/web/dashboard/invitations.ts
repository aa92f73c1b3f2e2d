import { groupList } from '#admin/groups';
import { invitationRenew } from '#admin/invitation-batches';
import {
  invitationCreate,
  invitationList,
  invitationRead,
  invitationRevoke,
  type InvitationView,
} from '#admin/invitations';
import { roleChoices } from '#admin/people';
import { csrfField, hiddenField, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  dashboardPath,
  layout,
  type Link,
  pageHeading,
  statusNotice,
  type Tabs,
  tabNavigation,
  type Frame,
} from '#web/layout';
import { secretPanel, type OneTimeSecret } from '#web/one-time-secret';
import { queryChoice, seeOther } from '#web/page-request';
import {
  type Cell,
  dataTable,
  listFilter,
  type ListFrame,
  pager,
  type Table,
  timeCell,
} from '#web/tables';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import { checkedValues, formFor } from './forms.ts';
import type { DashboardGuard, DashboardVisit, FormHandler, PageHandler } from './guard.ts';
import { linksPage } from './invitation-links.ts';
import { listQuery } from './lists.ts';
import { mailBadges, mailPath, mailServerOf } from './mail.ts';
import { sendDashboardPage } from './page.ts';
import { peopleCrumbs, peopleTabs } from './people.ts';
import { counted, questionRoutes, type Question } from './questions.ts';

const needs = 'people.manage';

/** `/people/invitations`: the invitations that were not accepted. `/people/invite`: creates a one-time link and shows it once. */
export function invitationRoutes(guard: DashboardGuard): void {
  guard.get('/people/invitations', needs, showInvitations);
  guard.post('/people/invitations/renew', needs, renew);
  questionRoutes(guard, '/people/invitations/:invitationId/revoke', needs, revocation);
  formRoutes(guard, '/people/invite', needs, newInvitation);
}

const homeOf = (organization: string) => `${dashboardPath(organization)}/people`;

export function invitationsPath(organization: string): string {
  return `${homeOf(organization)}/invitations`;
}

const notices: Readonly<Record<string, string>> = {
  revoked: 'Invitation revoked. Its links no longer work.',
  none: 'Select the invitations to renew first.',
  sending: 'The mails are being sent. Their state appears here.',
};

const showInvitations: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization, perform } = visit;
  const path = invitationsPath(organization);
  const query = listQuery(request, {
    states: [
      { value: '', text: 'All' },
      { value: 'pending', text: 'Pending' },
      { value: 'expired', text: 'Expired' },
    ],
    columns: [
      { text: 'For', sort: 'recipient' },
      { text: 'Role' },
      { text: 'Groups' },
      { text: 'Created', sort: 'created_at' },
      { text: 'Expires', sort: 'expires_at' },
      { text: 'Mail' },
      { text: 'Actions' },
    ],
    usual: { sort: 'created_at', order: 'desc' },
  });
  const { items, total } = await perform(invitationList, query.input);
  const expired = await perform(invitationList, { status: 'expired', limit: 1 });
  const now = ports.clock.now();
  const action = { text: 'Invite people', href: `${homeOf(organization)}/invite-several` };
  const data = {
    action,
    tabs: peopleTabs(visit, 'invitations'),
    notice: queryChoice(request, 'done', notices),
    list: query.frame(total),
    isSearchable: !query.isWhole || items.length > 0,
    table: {
      caption: 'Invitations',
      columns: query.columns,
      rows: await invitationRows(visit, items),
      empty: query.isWhole
        ? { text: 'No invitations. People you invite appear here until they join.', action }
        : { text: 'No invitations match.' },
      now,
    },
    renewal: `${path}/renew`,
    expired: expired.total,
    maySend: (await mailServerOf(visit, ports)) !== undefined,
    mail: mailPath(organization),
  };
  const crumbs = peopleCrumbs(organization, { text: 'Invitations' });
  return sendDashboardPage(reply, visit, invitationsPage, data, { crumbs });
};

export function recipientWords({ email, note }: Pick<InvitationView, 'email' | 'note'>): string {
  return email ?? (note || 'Anyone with the link');
}

async function invitationRows(
  { organization, perform }: DashboardVisit,
  items: readonly InvitationView[],
): Promise<Table['rows']> {
  const isGrouped = items.some(({ groupIds }) => groupIds.length > 0);
  const groups = isGrouped ? await perform(groupList) : undefined;
  const nameOf = new Map(groups?.items.map(({ id, name }) => [id, name]));
  const path = invitationsPath(organization);
  return items.map((invitation) => {
    const { id, email, note, role, groupIds, createdAt, expiresAt, status } = invitation;
    const recipient = recipientWords(invitation);
    return {
      id,
      cells: [
        {
          kind: 'name',
          text: recipient,
          check: { form: 'renewal', name: `invitation.${id}`, label: `Select ${recipient}` },
          badges: status === 'expired' ? [{ text: 'Expired', tone: 'care' }] : [],
          note: email === null ? undefined : note,
        },
        { kind: 'text', text: role },
        {
          kind: 'text',
          text: groupIds.flatMap((group) => nameOf.get(group) ?? []).join(', '),
        },
        timeCell(createdAt),
        timeCell(expiresAt),
        mailCell(invitation),
        {
          kind: 'actions',
          actions: [
            {
              text: 'Revoke',
              href: `${path}/${id}/revoke`,
              of: `the invitation for ${recipient}`,
              danger: true,
            },
          ],
        },
      ],
    };
  });
}

function mailCell({ mail }: InvitationView): Cell {
  if (!mail) return { kind: 'text', text: '' };
  const { status, answer } = mail;
  const reason = status === 'sent' || answer === null ? undefined : `The server ${answer}.`;
  return { kind: 'status', status: mailBadges[status], reason };
}

interface InvitationsPageData {
  readonly action: Link;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  readonly list: ListFrame;
  readonly isSearchable: boolean;
  readonly table: Table;
  /** The path to which the renewal forms are posted. */
  readonly renewal: string;
  /** The number of expired invitations. */
  readonly expired: number;
  /** Whether there is a mail server. */
  readonly maySend: boolean;
  /** The page where a mail server is set up. */
  readonly mail: string;
}

function invitationsPage(data: InvitationsPageData, frame: Frame): Html {
  const { action, tabs, list, table, renewal, expired, maySend, mail } = data;
  const lead =
    'People who have not joined yet. An invitation expires after seven days. You can renew it for 30 days after that.';
  const all = html`${hiddenField('all', 'expired')}${maySend && html`<button name="send" value="yes">Send to all expired (${expired})</button> `}<button>Renew all expired (${expired})</button>`;
  const content = html`${pageHeading({ heading: 'Invitations', lead, action })}
${tabNavigation(tabs)}
${statusNotice(data.notice)}
${data.isSearchable && listFilter(list)}
${dataTable(table)}
${
  table.rows.length > 0 &&
  html`<div class="actions">
<form id="renewal" method="post" action="${renewal}">
${csrfField(frame)}
${maySend && html`<button name="send" value="yes">Send reminder to selected</button> `}<button>Renew selected</button>
</form>
${expired > 0 && postForm(frame, { action: renewal }, all)}
</div>
<p class="help">Renewing shows new links and starts another seven days${maySend ? '; a reminder also sends them' : ''}. Earlier links of pending invitations stay valid.</p>`
}
${pager(list)}
${!maySend && html`<p class="help">To send invitations and reminders by e-mail, <a href="${mail}">set up a mail server</a>.</p>`}`;
  return layout({ title: 'Invitations', width: 'table' }, frame, content);
}

const renew: FormHandler = async (visit, sent, _request, reply, { base }) => {
  const { organization, perform } = visit;
  const home = invitationsPath(organization);
  const invitationIds = checkedValues(sent, 'invitation');
  const isAll = sent.get('all') === 'expired';
  if (!isAll && invitationIds.length === 0) return seeOther(reply, `${home}?done=none`);
  const send = sent.get('send') === 'yes';
  const which = isAll ? { all: 'expired' } : { invitationIds };
  const { items } = await perform(invitationRenew, { ...which, send });
  if (send) return seeOther(reply, `${home}?done=sending`);
  const data = {
    heading: `${counted(items.length, 'invitation')} renewed`,
    links: items.map((one) => ({
      recipient: recipientWords(one),
      role: one.role,
      link: base + one.path,
    })),
    skipped: [],
    done: home,
  };
  const invitations = { text: 'Invitations', href: home };
  const crumbs = peopleCrumbs(organization, invitations, { text: 'Links' });
  return sendDashboardPage(reply, visit, linksPage, data, { crumbs });
};

const revocation: Question = {
  async ask({ organization, perform }, { params: { invitationId = '' } }) {
    const invitation = await perform(invitationRead, { invitationId });
    const home = invitationsPath(organization);
    return {
      heading: `Revoke the invitation for ${recipientWords(invitation)}?`,
      consequences: ['Its links stop working immediately. This cannot be undone.'],
      verb: 'Revoke invitation',
      cancel: home,
      crumbs: peopleCrumbs(organization, { text: 'Invitations', href: home }),
    };
  },
  async act({ organization, perform }, { params: { invitationId = '' } }) {
    await perform(invitationRevoke, { invitationId });
    return `${invitationsPath(organization)}?done=revoked`;
  },
};

const newInvitation: FormRoutes = {
  form: formFor(invitationCreate, ['email', 'send', 'note']),
  conflict: 'email',
  async page(visit, _request, { ports }) {
    const { organization, perform, may } = visit;
    const server = await mailServerOf(visit, ports);
    const home = homeOf(organization);
    const { items } = await perform(groupList);
    const groups = items.map(({ id, name }) => ({ value: id, text: name }));
    return {
      heading: 'Invite a person',
      lead: 'Creates a link that works once and expires after seven days.',
      refused: 'Not invited yet',
      verb: server ? 'Invite' : 'Create link',
      cancel: home,
      crumbs: peopleCrumbs(organization, { text: 'Invite a person' }),
      ...(server && { record: { send: true } }),
      shownFields: {
        only: ['email', ...(server ? ['mail.send'] : []), 'note', 'role', 'group'],
        here: {
          role: { choices: roleChoices(may('owners.manage')) },
          group: { choices: groups },
        },
      },
    };
  },
  async act(visit, entered, _request, reply, { base }) {
    const { organization } = visit;
    const made = await visit.perform(invitationCreate, entered);
    if (entered['send'] === true) {
      return seeOther(reply, `${invitationsPath(organization)}?done=sending`);
    }
    const secret = {
      label: 'Invitation link',
      secret: base + made.path,
      keep: 'Send the link to the person, or keep it until you do.',
      done: invitationsPath(organization),
    };
    const crumbs = peopleCrumbs(organization, { text: 'Invitation link' });
    return sendDashboardPage(reply, visit, invitedPage, { secret }, { crumbs });
  },
};

/** Shows the link of an invitation once. */
function invitedPage({ secret }: { readonly secret: OneTimeSecret }, frame: Frame): Html {
  const lead =
    'Send this link to the person in a private message. It works once and expires after seven days.';
  const content = html`${pageHeading({ heading: 'Invitation link', lead })}
${secretPanel(secret)}`;
  return layout({ title: 'Invitation link', width: 'text' }, frame, content);
}
