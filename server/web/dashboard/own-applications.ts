import { notFound } from '#admin/refusal';
import { findGrant, listDecisionsOfPerson, type NamedGrant } from '#db/grants';
import { scopeSentence } from '#model/scopes';
import { allowGrant, withdrawGrant } from '#oauth/revocation';
import { accessName, deviceNote, withdrawnWords } from '#web/access-words';
import { applicationName } from '#web/consent';
import { type Badge, dashboardPath } from '#web/layout';
import { queryChoice, queryText } from '#web/page-request';
import { visitOf } from '#web/page-session';
import { type Table, timeCell } from '#web/tables';
import { grantedTools } from '#web/tool-choice';
import { partsOf } from '#model/slug';
import { sentence } from './consents.ts';
import { ownDevices } from './devices.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { listPage, listQuery } from './lists.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { inWords, type Question, questionRoutes } from './questions.ts';
import { ownServersPath, ownTabs } from './your-servers.ts';

/**
 * `/applications`: the applications that act for the person in this organization. People who came through a provider of the
 * organization have no account page.
 */
export function ownApplicationRoutes(guard: DashboardGuard): void {
  guard.get(home, toUse, showApplications);
  questionRoutes(guard, `${home}/:grantId/withdraw`, toUse, withdrawal);
  questionRoutes(guard, `${home}/:grantId/allow`, toUse, allowing);
}

const home = '/applications';
export const toUse = 'organization.read';
export const applicationsPath = (organization: string) => dashboardPath(organization) + home;
const shape = {
  states: [],
  columns: ['Application', 'Server', 'Permissions', 'Tools', 'Allowed', 'Actions'],
  usual: { sort: 'created_at', order: 'desc' },
} as const;
const notices: Readonly<Record<string, string>> = {
  allowed: 'Allowed again. The application has access as soon as it asks for it.',
  device: 'Device signed out. Its applications have lost access.',
  tools: 'Saved. The change takes effect on the next call.',
};

const showApplications: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization } = visit;
  const now = ports.clock.now();
  const here = await decisionsHere(visit, ports);
  const table: Table = {
    caption: 'Applications',
    columns: listQuery(request, shape).columns,
    rows: here.map((grant) => {
      const client = applicationName(grant);
      const of = `${client}: ${accessName(grant)}`;
      const at = `${applicationsPath(organization)}/${grant.id}`;
      const name = grant.serverPath.slice(organization.length + 1);
      return {
        id: grant.id,
        cells: [
          { kind: 'name', text: client, badges: badgesOf(grant), note: deviceNote(grant.device) },
          { kind: 'title', of: { name, title: grant.titles.server } },
          { kind: 'text', text: sentence(grant.scopes.map((scope) => scopeSentence(scope).text)) },
          { kind: 'text', text: grantedTools(grant) },
          timeCell(grant.createdAt),
          {
            kind: 'actions',
            actions:
              grant.revokedAt === undefined
                ? [
                    { text: 'Change tools', href: `${at}/tools`, of },
                    { text: 'Withdraw', href: `${at}/withdraw`, of, danger: true },
                  ]
                : [{ text: 'Allow again', href: `${at}/allow`, of }],
          },
        ],
      };
    }),
    empty: {
      text: 'No applications yet. An application appears here when you connect it to a server.',
      action: { text: 'Your servers', href: ownServersPath(organization) },
    },
    now,
  };
  const data = {
    heading: 'My applications',
    lead: 'Applications that act for you in this organization, because you or the organization allowed it.',
    action: undefined,
    tabs: ownTabs(visit, 'applications'),
    notice: (await withdrawnNotice(visit, request, ports)) ?? queryChoice(request, 'done', notices),
    list: listQuery(request, shape).frame(here.length),
    isSearchable: false,
    table,
    more: await ownDevices(visit, applicationsPath(organization), ports),
    here: request.url,
  };
  return sendDashboardPage(reply, visit, listPage, data, { crumbs: [{ text: 'My applications' }] });
};

/** The person's grants in this organization, newest first, with those that they withdrew and can allow again. */
async function decisionsHere(
  { organization, person }: DashboardVisit,
  { db, clock }: Pick<DashboardPorts, 'db' | 'clock'>,
): Promise<readonly NamedGrant[]> {
  const all = await listDecisionsOfPerson(db, person.user.id, clock.now());
  return all.filter(({ serverPath }) => serverPath.startsWith(`${organization}/`));
}

/** Says what the same application can still use, and how to end all access on its device; empty if it has no other access. */
async function remainingAccess(
  grant: NamedGrant,
  visit: DashboardVisit,
  ports: Pick<DashboardPorts, 'db' | 'clock'>,
): Promise<readonly string[]> {
  const client = applicationName(grant);
  const left = (await decisionsHere(visit, ports)).filter(
    (one) => one.id !== grant.id && one.revokedAt === undefined && applicationName(one) === client,
  );
  if (left.length === 0) return [];
  const named = left.slice(0, mostNamed).map(accessName);
  const more = left.length - named.length;
  return [
    `${client} keeps access to ${inWords(more === 0 ? named : [...named, `${more} more`])}.`,
    ...(left.some(({ device }) => device)
      ? ['To end all access on a device, sign it out under “Devices” in My applications.']
      : []),
  ];
}

const mostNamed = 5;

/** Says what was withdrawn, after a withdrawal. */
async function withdrawnNotice(
  visit: DashboardVisit,
  request: DashboardRequest,
  ports: DashboardPorts,
): Promise<string | undefined> {
  const id = queryText(request, 'withdrawn');
  const grant = id === undefined ? undefined : await findGrant(ports.db, id);
  if (!grant || !isOwnHere(grant, visit) || grant.revokedAt === undefined) return undefined;
  const left = await remainingAccess(grant, visit, ports);
  return [withdrawnWords(grant), ...left].join(' ');
}

function badgesOf({ isByAssertion, revokedAt }: NamedGrant): readonly Badge[] {
  return [
    ...(isByAssertion ? [{ text: 'By your organization', tone: 'plain' } as const] : []),
    ...(revokedAt === undefined ? [] : [{ text: 'Withdrawn', tone: 'bad' } as const]),
  ];
}

/** The grant of this person in this organization that the path names. @throws {AdministrationRefusal} `not_found` */
export async function grantOf(
  visit: DashboardVisit,
  { params }: DashboardRequest,
  { ports }: DashboardOptions,
): Promise<NamedGrant> {
  const grant = await findGrant(ports.db, params['grantId'] ?? '');
  if (!grant || !isOwnHere(grant, visit)) throw notFound('grant');
  return grant;
}

function isOwnHere({ userId, serverPath }: NamedGrant, { organization, person }: DashboardVisit) {
  return userId === person.user.id && partsOf(serverPath).organization === organization;
}

/** The breadcrumb of a page about one application. */
export function applicationCrumbs(organization: string, ...more: readonly string[]) {
  const all = { text: 'My applications', href: applicationsPath(organization) };
  return [all, ...more.map((text) => ({ text }))];
}

const withdrawal: Question = {
  async ask(visit, request, options) {
    const grant = await grantOf(visit, request, options);
    return {
      heading: `Withdraw the access of ${applicationName(grant)} to ${accessName(grant)}?`,
      consequences: [
        grant.isByAssertion
          ? 'The application loses access immediately, and your organization cannot give it back until you allow it again.'
          : 'The application loses access immediately. It has to ask you again.',
        ...(await remainingAccess(grant, visit, options.ports)),
      ],
      verb: 'Withdraw access',
      cancel: applicationsPath(visit.organization),
      crumbs: applicationCrumbs(visit.organization),
    };
  },
  async act(visit, request, options) {
    const { id } = await grantOf(visit, request, options);
    const ports = { ...options.ports, source: visitOf(request) };
    if (!(await withdrawGrant(id, visit.person.user.id, ports))) throw notFound('grant');
    return `${applicationsPath(visit.organization)}?withdrawn=${id}`;
  },
};

const allowing: Question = {
  async ask(visit, request, options) {
    const grant = await grantOf(visit, request, options);
    return {
      heading: `Allow ${applicationName(grant)} to use ${accessName(grant)} again?`,
      consequences: ['Your organization decides again whether the application gets access.'],
      verb: 'Allow again',
      cancel: applicationsPath(visit.organization),
      crumbs: applicationCrumbs(visit.organization),
    };
  },
  async act(visit, request, options) {
    const { id } = await grantOf(visit, request, options);
    const ports = { ...options.ports, source: visitOf(request) };
    if (!(await allowGrant(id, visit.person.user.id, ports))) throw notFound('grant');
    return `${applicationsPath(visit.organization)}?done=allowed`;
  },
};
