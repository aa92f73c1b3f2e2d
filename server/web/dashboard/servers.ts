import { type ServerInUse, serverList, serverRead, type ServerView } from '#admin/servers';
import { ownConnectionRead, type OwnConnectionView } from '#admin/upstream-connections';
import type { EpochSeconds } from '#model/clock';
import { listGrantsOfPerson } from '#db/grants';
import { findUsableServers } from '#db/server-access';
import { describeUpstream } from '#model/upstream-kinds';
import type { ServerHealth } from '#upstreams/health';
import { applicationName } from '#web/consent';
import { html, type Html } from '#web/html';
import { connectionInstructions, instructionList } from '#web/instructions';
import {
  dashboardPath,
  type Frame,
  layout,
  pageHeading,
  type Problem,
  problemNotice,
  statusNotice,
  tabNavigation,
} from '#web/layout';
import { queryChoice, queryText } from '#web/page-request';
import { copyable, type Fact, factList, timeCell } from '#web/tables';
import { titleText } from '#web/titles';
import { activityPath, lastCalls } from './calls.ts';
import { exclusionNotice, exclusionOf } from './closed-server.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { healthCell, healthOfAll, noAccessCell } from './health.ts';
import { listQuery, renewedPart, sendListPage } from './lists.ts';
import { livePath } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { isExcluded, serverCrumbs, serverPath, serverTabs } from './server-tabs.ts';

/** The servers of an organization, and the page of each. */
export function serverRoutes(guard: DashboardGuard): void {
  guard.get('/servers', toRead, showServers);
  guard.get('/servers/:server', toRead, showServer);
}

const toRead = 'server.read';
const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'enabled', text: 'Enabled' },
    { value: 'disabled', text: 'Disabled' },
  ],
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Status' },
    { text: 'Upstream' },
    { text: 'Created', sort: 'created_at' },
  ],
  usual: { sort: 'name', order: 'asc' },
} as const;

const showServers: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization } = visit;
  const seesUpstreams = visit.may('server.manage');
  const columns = shape.columns.filter(({ text }) => text !== 'Upstream' || seesUpstreams);
  const query = listQuery(request, { ...shape, columns });
  const { items, total } = await visit.perform(serverList, query.input);
  const health = await healthOfAll(items, ports);
  const ids = items.map(({ id }) => id);
  const usable = await findUsableServers(ports.db, visit.person.user.id, ids);
  const create = { text: 'Create server', href: `${dashboardPath(organization)}/new-server` };
  const rows = items.map((server) => ({
    id: server.id,
    // A disabled server can be enabled again, so it is not over: its status says enough, and its name still links to its page.
    isOver: false,
    cells: [
      { kind: 'title', of: server, href: serverPath(organization, server.name) } as const,
      // People who manage a server need its status, whether or not they can use it.
      seesUpstreams || usable.has(server.id) || server.disabledAt !== null
        ? healthCell(health.get(server.id), false)
        : noAccessCell,
      ...(seesUpstreams
        ? [{ kind: 'text', text: describeUpstream(server.upstream) } as const]
        : []),
      timeCell(server.createdAt),
    ],
  }));
  const list = {
    heading: 'Servers',
    lead: visit.may('server.manage')
      ? 'A server is an MCP endpoint with its own OAuth clients and API keys.'
      : 'All servers of this organization. Those that you can use are under My applications.',
    caption: 'Servers',
    action: visit.may('server.manage') ? create : undefined,
    notice: queryText(request, 'done') === 'deleted' ? 'Server deleted.' : undefined,
    query,
    rows,
    total,
    none: 'No servers yet. A server is an MCP endpoint that assistants call.',
    noneLikeThat: 'No servers match.',
    now: ports.clock.now(),
  };
  const at = { crumbs: [{ text: 'Servers' }], live: livePath(organization) };
  return sendListPage(reply, visit, list, at);
};

const notices: Readonly<Record<string, string>> = {
  created: 'Server created. Connect an assistant to it below.',
  enabled: 'Server enabled.',
};

const showServer: PageHandler = async (visit, request, reply, options) => {
  const data = await serverData(visit, request, options);
  const at = { crumbs: serverCrumbs(visit), live: livePath(visit.organization) };
  return sendDashboardPage(reply, visit, serverPage, data, at);
};

async function serverData(
  visit: DashboardVisit,
  request: DashboardRequest,
  { base, ports }: DashboardOptions,
) {
  const { organization, may } = visit;
  const { server: name = '' } = request.params;
  const server = await visit.perform(serverRead, { server: name });
  const health = await ports.serverHealth(server.id);
  const own = await visit.perform(ownConnectionRead, { server: name });
  const applications = await applicationsOf(visit.person.user.id, ports.clock.now(), ports);
  const home = serverPath(organization, name);
  const endpoint = base + server.endpoint;
  const credential = { kind: 'person' } as const;
  const made = { organization, name, url: endpoint, credential };
  return {
    heading: server,
    description: server.description,
    tabs: serverTabs(visit, name, 'connect'),
    notice: queryChoice(request, 'done', notices),
    isDisabled: server.disabledAt !== null,
    settings: may('server.manage') ? `${home}/settings` : undefined,
    endpoint,
    problem: health && problemOf(health, server, visit),
    exclusion: await exclusionOf(visit, ports),
    mayManage: may('server.manage'),
    here: request.url,
    facts: [
      {
        label: 'Status',
        cell:
          isExcluded(visit) && server.disabledAt === null
            ? noAccessCell
            : healthCell(health, may('server.manage')),
      },
      {
        label: 'You use it with',
        text: applications.get(`${organization}/${name}`) ?? 'No application yet',
      },
      // A person can remove an account or key that they left there, even without access to the server.
      ...(own.isNeeded && !(visit.server.isClosed && own.state === 'none')
        ? [ownAccountFact(own, `${home}/account`)]
        : []),
      ownCallsFact(visit, server.id),
      ...(may('server.manage') ? administrationFacts(server, health) : []),
    ],
    instructions: connectionInstructions(made, await ports.proxy(), {
      isForAdministrators: may('server.manage'),
    }),
    makes: [
      {
        permission: 'client.manage',
        text: 'Create OAuth client',
        help: 'For an application that signs people in, or that acts on its own behalf.',
        href: `${home}/new-client`,
      } as const,
      {
        permission: 'key.manage',
        text: 'Generate API key',
        help: 'For an assistant or a script that sends a header.',
        href: `${home}/new-key`,
      } as const,
    ].filter(({ permission }) => may(permission)),
    calls: await lastCalls(
      visit,
      { endpoint: server.id },
      { kind: 'server', subject: server.id },
      ports,
    ),
    now: ports.clock.now(),
  };
}

type ServerPageData = Awaited<ReturnType<typeof serverData>>;

/** Tells people who manage a server what they can do when calls fail. */
function problemOf(
  { status, reason: text }: ServerHealth,
  { name, upstream }: ServerView,
  { organization, may }: DashboardVisit,
): Problem | undefined {
  if (!may('server.manage') || text === undefined) return undefined;
  const home = serverPath(organization, name);
  if (status === 'sign-in-required') {
    const link = { text: 'Check upstream authentication', href: `${home}/upstream` };
    return { text, link };
  }
  if (upstream.kind === 'agent') {
    const href = `${dashboardPath(organization)}/agents/${upstream.agent}`;
    return { text, link: { text: 'View agent', href } };
  }
  return { text, link: { text: 'Open settings', href: `${home}/settings` } };
}

/** A link to the calls that the person's applications made to a server. */
export function ownCallsFact({ organization, person }: DashboardVisit, endpoint: string): Fact {
  const href = activityPath(organization, { endpoint, person: person.user.id });
  return { label: 'Your calls', cell: { kind: 'name', text: 'View your activity here', href } };
}

/** The facts that only people who manage a server need on its page. Others come there to connect an assistant. */
function administrationFacts(server: ServerInUse, health: ServerHealth | undefined): Fact[] {
  return [
    { label: 'Upstream', text: describeUpstream(server.upstream) },
    ...(health?.protocol === undefined
      ? []
      : [{ label: 'Protocol', text: `MCP ${health.protocol}` }]),
    { label: 'Active OAuth clients', text: String(server.activeClients) },
    { label: 'Active API keys', text: String(server.activeKeys) },
    { label: 'Active grants', text: String(server.activeGrants) },
    { label: 'Hidden tools', text: server.hiddenTools.join(', ') || 'None' },
    { label: 'Created', cell: timeCell(server.createdAt) },
  ];
}

/** Whether the person's own account is connected, or their key entered, with a link to manage it. */
function ownAccountFact({ kind, state, key }: OwnConnectionView, href: string) {
  if (kind === 'key') {
    const words = { none: 'Enter your key', connected: 'Entered', ended: 'Refused' };
    const cell = { kind: 'name', text: words[state], href, badges: [] } as const;
    return { label: `Your ${key?.label ?? 'key'}`, cell };
  }
  const text = state === 'connected' ? 'Connected' : 'Connect your account';
  return { label: 'Your account', cell: { kind: 'name', text, href, badges: [] } as const };
}

/** A server: its endpoint, how to connect to it, and its state. */
function serverPage(data: ServerPageData, frame: Frame): Html {
  const { heading, description, tabs, isDisabled, endpoint, facts, problem, makes, now } = data;
  const live = html`${problem && !isDisabled && problemNotice(problem)}
<section class="group" aria-labelledby="endpoint-heading">
<h2 id="endpoint-heading">Endpoint</h2>
${copyable(endpoint, 'the endpoint')}
${factList(facts, now)}
</section>`;
  // People who manage the server also see how others connect.
  const connects = data.exclusion === undefined || data.mayManage;
  const content = html`${pageHeading({ heading, lead: description })}
${tabNavigation(tabs)}
${isDisabled ? disabledNotice(data.settings) : statusNotice(data.notice)}
${data.exclusion && !isDisabled && exclusionNotice(data.exclusion)}
${renewedPart(data.here, live)}
${
  connects &&
  html`<section class="section" aria-labelledby="connect-heading">
<h2 id="connect-heading">Connect an assistant</h2>
<p class="help">You sign in with your browser, so there is no secret to copy. You lose access when you lose your role here.</p>
${instructionList(data.instructions)}
</section>`
}
${
  makes.length > 0 &&
  html`<section class="section" aria-labelledby="make-heading">
<h2 id="make-heading">Connect an application with its own credential</h2>
<ul class="rows">
${makes.map(
  ({ text, help, href }) =>
    html`<li>
<div>${help}</div>
<a class="button" href="${href}">${text}</a>
</li>`,
)}
</ul>
</section>`
}
${data.calls}`;
  return layout({ title: titleText(heading), width: 'table' }, frame, content);
}

function disabledNotice(settings: string | undefined): Html {
  const next = settings
    ? html`Enable it under <a href="${settings}">Settings</a>.`
    : 'Ask an owner or an admin to enable it.';
  return html`<p class="notice warning" role="status">
This server is disabled. Calls to it are refused. ${next}
</p>`;
}

const mostNamed = 3;

/** The applications with which a person uses each server, by `{organization}/{server}`: `Claude Desktop, Cursor and 2 more`. */
export async function applicationsOf(
  userId: string,
  now: EpochSeconds,
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<ReadonlyMap<string, string>> {
  const grants = await listGrantsOfPerson(db, userId, now);
  const ofServers = Map.groupBy(grants, (grant) => grant.serverPath);
  return new Map(
    [...ofServers].map(([path, ofServer]) => {
      const all = [...new Set(ofServer.map(applicationName))];
      const more = all.length - mostNamed;
      return [path, all.slice(0, mostNamed).join(', ') + (more > 0 ? ` and ${more} more` : '')];
    }),
  );
}
