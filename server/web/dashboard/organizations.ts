import type { FastifyReply } from 'fastify';
import { perform } from '#admin/operation';
import {
  organizationCreate,
  organizationRead,
  settingsRead,
  settingsUpdate,
  stoppedBy,
} from '#admin/organizations';
import { ownsEveryOrganization } from '#db/organizations';
import { listOpenMemberships } from '#db/people';
import type { ConnectedApps } from '#db/settings';
import { isSlug, slugOf } from '#model/slug';
import { errorSummary, type FieldError, formActions, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  dashboardPath,
  type Frame,
  layout,
  type Link,
  pageHeading,
  statusNotice,
} from '#web/layout';
import { queryText, seeOther, sendPage } from '#web/page-request';
import type { CurrentPerson, MemberGuard, PersonGuard } from '#web/page-session';
import { dataTable, type Table } from '#web/tables';
import { type Entered, formFor } from './forms.ts';
import {
  type DashboardGuard,
  type DashboardVisit,
  type FormHandler,
  type MemberPageHandler,
  type PageHandler,
  personActor,
  type PersonFormHandler,
  type PersonPageHandler,
  titledOf,
} from './guard.ts';
import { dashboardScripts, sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { counted, questionPage } from './questions.ts';
import { mailPath } from './mail.ts';
import { noticesPath } from './notices.ts';
import { webhooksPath } from './webhooks.ts';

const newForm = formFor(organizationCreate);

/**
 * `/dashboard`, which redirects to the person's first organization; `/organizations`, which lists them; and
 * `/new-organization`, which creates one.
 */
export function organizationRoutes(
  forMember: MemberGuard<DashboardOptions>,
  forPerson: PersonGuard<DashboardOptions>,
): void {
  forMember.get('/dashboard', goToDashboard);
  forMember.get('/organizations', showOrganizations);
  forPerson.get('/new-organization', showNewOrganization);
  forPerson.post('/new-organization', createOrganization);
}

const goToDashboard: MemberPageHandler = async ({ session }, _request, reply, { ports }) => {
  const [first] = await listOpenMemberships(ports.db, session);
  return seeOther(reply, first ? dashboardPath(first.organization) : '/organizations');
};

const showOrganizations: MemberPageHandler = async (person, _request, reply, { ports }) => {
  const { db, clock } = ports;
  const memberships = await listOpenMemberships(db, person.session);
  const rows = memberships.map((membership) => ({
    id: membership.organization,
    cells: [
      { kind: 'title', of: titledOf(membership), href: dashboardPath(membership.organization) },
      { kind: 'text', text: membership.role },
    ] as const,
  }));
  const empty = {
    text: 'You do not belong to an organization. Ask an owner to invite you with the e-mail address of your account.',
    action: { text: 'Your account', href: '/account' },
  };
  const columns = ['Name', 'Your role'];
  const table = { caption: 'Organizations', columns, rows, empty, now: clock.now() };
  const seesAllOrganizations = person.session.through === undefined;
  const mayCreate = seesAllOrganizations && memberships.some(({ role }) => role === 'owner');
  const isOperator = seesAllOrganizations && (await ownsEveryOrganization(db, person.user.id));
  const installation = isOperator
    ? [
        ...(ports.listNodes ? [{ text: 'Nodes', href: '/nodes' }] : []),
        { text: 'Outbound hosts', href: '/outbound' },
      ]
    : [];
  return sendPage(reply, organizationsPage, { table, mayCreate, installation }, { person });
};

function sendNewOrganization(
  person: CurrentPerson,
  reply: FastifyReply,
  data: OrganizationFormData,
): FastifyReply {
  return sendPage(reply, organizationFormPage, data, { person, scripts: dashboardScripts() });
}

const showNewOrganization: PersonPageHandler = async (person, _request, reply) =>
  sendNewOrganization(person, reply, { entered: newForm.blank, errors: [] });

const createOrganization: PersonFormHandler = async (person, sent, request, reply, { ports }) => {
  const entered = withSlug(newForm.read(sent));
  try {
    const input = newForm.inputOf(entered);
    const { name } = await perform(organizationCreate, input, personActor(person, request), ports);
    return seeOther(reply, dashboardPath(name));
  } catch (refusal) {
    const errors = newForm.errorsOf(refusal, entered, 'name');
    return sendNewOrganization(person, reply, { entered, errors });
  }
};

/**
 * Turns the entered name into a slug for URLs. If the slug differs, the entered name becomes the title, unless a title
 * was entered.
 */
function withSlug(entered: Entered): Entered {
  const { name, title } = entered;
  if (typeof name !== 'string' || isSlug(name)) return entered;
  const slug = slugOf(name);
  return slug === '' ? entered : { ...entered, name: slug, title: title || name.trim() };
}

/** A person's organizations, and whether they may create another. */
interface OrganizationsPageData {
  readonly table: Table;
  /** Only owners of an organization may create another one. */
  readonly mayCreate: boolean;
  /** The pages about the whole installation, for those who may see them. */
  readonly installation: readonly Link[];
}

/** The person's organizations, or a hint if there are none. */
function organizationsPage(data: OrganizationsPageData, frame: Frame): Html {
  const create = { text: 'Create organization', href: '/new-organization' };
  const action = data.mayCreate ? create : undefined;
  const content = html`${pageHeading({ heading: 'Organizations', action })}
${dataTable(data.table)}
${data.installation.length > 0 && html`<p>This installation: ${data.installation.map(({ text, href }, place) => html`${place > 0 && ' · '}<a href="${href}">${text}</a>`)}</p>`}`;
  return layout({ title: 'Organizations', width: 'text' }, frame, content);
}

/** The entered values, and errors in them. */
interface OrganizationFormData {
  readonly entered: Entered;
  readonly errors: readonly FieldError[];
}

function organizationFormPage({ entered, errors }: OrganizationFormData, frame: Frame): Html {
  const title = errors.length > 0 ? 'Not created yet' : 'Create organization';
  const fields = html`${newForm.fields(entered, errors)}
${formActions('Create organization', '/organizations')}`;
  const content = html`<h1>Create organization</h1>
<p class="lead">An organization has its own servers, agents and people. You become its owner.</p>
${errorSummary(errors)}
${postForm(frame, { action: '/new-organization', novalidate: true }, fields)}`;
  return layout({ title, width: 'form' }, frame, content);
}

const settingsForm = formFor(settingsUpdate, ['title']);

const toRead = 'organization.settings';
const toManage = 'organization.manage';

/** `/settings`: title and rules of an organization. */
export function settingsRoutes(guard: DashboardGuard): void {
  guard.get('/settings', toRead, showSettings);
  guard.post('/settings', toManage, saveSettings);
}

async function sendSettings(
  visit: DashboardVisit,
  reply: FastifyReply,
  shown: { notice: string | undefined } | { entered: Entered; errors: readonly FieldError[] },
  ports: DashboardPorts,
) {
  const { organization, actor, may } = visit;
  const { title } = await perform(organizationRead, { organization }, actor, ports);
  const rules = await perform(settingsRead, { organization }, actor, ports);
  const unchanged = { entered: settingsForm.filled({ ...rules, title }), errors: [] };
  const { notice, entered, errors } = { notice: undefined, ...unchanged, ...shown };
  const data = {
    action: `${dashboardPath(organization)}/settings`,
    home: dashboardPath(organization),
    entered,
    mayManage: may('organization.manage'),
    links: [
      ...(may('notice.manage') ? [noticesLink(organization)] : []),
      ...(may('mail.read') ? [mailLink(organization)] : []),
      ...(may('webhook.manage') ? [webhooksLink(organization)] : []),
    ],
    connected: rules.connected,
    notice,
    errors,
  };
  const crumbs = [{ text: 'Settings' }];
  return sendDashboardPage(reply, visit, settingsPage, data, { crumbs });
}

const showSettings: PageHandler = (visit, request, reply, { ports }) => {
  const notice = queryText(request, 'done') === 'saved' ? 'Settings saved.' : undefined;
  return sendSettings(visit, reply, { notice }, ports);
};

const saveSettings: FormHandler = async (visit, sent, _request, reply, { ports }) => {
  const { organization, actor } = visit;
  const home = `${dashboardPath(organization)}/settings`;
  const entered = settingsForm.read(sent);
  try {
    const change = { ...settingsForm.inputOf(entered), organization };
    const before = await perform(settingsRead, { organization }, actor, ports);
    const stopped = stoppedBy(change, before);
    if (stopped.length > 0 && sent.get(confirmed) === undefined) {
      const question = settingsQuestion(home, { stopped, entered });
      const crumbs = [{ text: 'Settings' }];
      return sendDashboardPage(reply, visit, questionPage, question, { crumbs });
    }
    await perform(settingsUpdate, change, actor, ports);
  } catch (refusal) {
    const errors = settingsForm.errorsOf(refusal, entered, 'rule');
    return sendSettings(visit, reply, { entered, errors }, ports);
  }
  return seeOther(reply, `${home}?done=saved`);
};

function noticesLink(organization: string) {
  const help = 'Get an e-mail when something needs your attention.';
  return { text: 'Your notices', href: noticesPath(organization), help };
}

function mailLink(organization: string) {
  const help = 'Send invitations, reminders and notices through your own mail server.';
  return { text: 'Mail server', href: mailPath(organization), help };
}

function webhooksLink(organization: string) {
  const help = 'Send audit events to your own URL, such as a SIEM, a chat or a script.';
  return { text: 'Webhooks', href: webhooksPath(organization), help };
}

/** The form field by which the person confirms the consequences. */
const confirmed = 'confirmed';

/** Asks for confirmation before applications lose access. The form keeps what was entered. */
function settingsQuestion(
  action: string,
  { stopped, entered }: { readonly stopped: readonly string[]; readonly entered: Entered },
) {
  const kept = Object.entries(entered).flatMap(([name, value]): [string, string][] => {
    if (typeof value === 'string') return [[name, value]];
    return value === true ? [[name, 'on']] : [];
  });
  return {
    heading: 'Turn off access for connected apps?',
    consequences: [
      ...stopped.map((sentence) => `${sentence}.`),
      'They lose it immediately, and calls in progress end. When you turn it on again, they have access again, unless it was revoked or expired.',
    ],
    action,
    verb: 'Turn off access',
    cancel: action,
    kept: { ...Object.fromEntries(kept), [confirmed]: 'yes' },
  };
}

/** A sentence for the help of a setting: how many people use the applications that it concerns. */
function usedNow({ people, connections }: ConnectedApps): string {
  if (people === 0) return 'No one uses them now.';
  return `Now: ${counted(people, 'person', 'people')} with ${counted(connections, 'connection')}.`;
}

/** The settings of an organization, and errors in the entered ones. */
interface SettingsPageData {
  readonly action: string;
  /** The path of the organization's pages. */
  readonly home: string;
  readonly entered: Entered;
  readonly mayManage: boolean;
  /** Pages of more settings, for people who may see them, each with what it is for. */
  readonly links: readonly (Link & { readonly help: string })[];
  readonly connected: {
    readonly selfRegistered: ConnectedApps;
    readonly latchkeyProxy: ConnectedApps;
  };
  readonly notice: string | undefined;
  readonly errors: readonly FieldError[];
}

/** The title of an organization and its rules. */
function settingsPage(data: SettingsPageData, frame: Frame): Html {
  const { action, home, entered, mayManage, links, connected, errors } = data;
  const title = errors.length > 0 ? 'Not saved' : 'Settings';
  const lead = mayManage ? '' : 'Only an owner can change these settings.';
  const here = {
    'rule.openClientsAllowed': { note: usedNow(connected.selfRegistered) },
    'rule.latchkeyProxyAllowed': { note: usedNow(connected.latchkeyProxy) },
  };
  const fields = html`${settingsForm.fields(entered, errors, { focus: false, here })}
${mayManage && html`<div class="actions"><button class="primary">Save</button></div>`}`;
  const content = html`${pageHeading({ heading: 'Settings', lead })}
${statusNotice(data.notice)}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, fields)}
${errors.some(({ field }) => field === 'rule') && html`<p class="help">Set up a second factor under <a href="/account">Your account</a>, or test an identity provider under <a href="${home}/sign-in">Sign-in</a>.</p>`}
<p class="help">To map identity-provider groups, open a group under Groups.</p>
${
  links.length > 0 &&
  html`<section class="section" aria-labelledby="more-heading">
<h2 id="more-heading">More settings</h2>
<ul class="rows">
${links.map(({ text, href, help }) => html`<li><div>${help}</div> <a class="button" href="${href}">${text}</a></li>`)}
</ul>
</section>`
}`;
  return layout({ title, width: 'text' }, frame, content);
}
