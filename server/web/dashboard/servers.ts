import { groupList, serverGroupsRead, serverGroupsSet } from '#admin/groups';
import { perform } from '#admin/operation';
import { serverList, serverRead } from '#admin/servers';
import { ownConnectionRead, type OwnConnectionView } from '#admin/upstream-connections';
import type { EpochSeconds } from '#clock/clock';
import type { ProxyReference } from '#download/proxy-reference';
import { describeUpstream } from '#upstreams/drivers';
import type { FieldChoice } from '#admin/fields';
import { postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  type AssistantConfiguration,
  assistantConfigurations,
  proxySource,
} from '#web/instructions';
import {
  type Badge,
  type Crumb,
  dashboardPath,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { configurationTabs } from '#web/one-time-secret';
import { queryText, seeOther } from '#web/page-request';
import { copyable, type Fact, factList } from '#web/tables';
import { type Entered, formFor } from './forms.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit } from './guard.ts';
import { listQuery, sendListPage } from './lists.ts';
import { livePath } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';

/** The servers of an organization, and the groups that may use one. */
export function serverRoutes(guard: DashboardGuard, options: DashboardOptions): void {
  listRoutes(guard, options);
  pageRoutes(guard, options);
  accessRoutes(guard, options);
}

const toRead = { permission: 'server.read', section: 'servers' } as const;
const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'enabled', text: 'In use' },
    { value: 'disabled', text: 'Disabled' },
  ],
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Title' },
    { text: 'Calls go to' },
    { text: 'Created', sort: 'created_at' },
  ],
  usual: { sort: 'name', order: 'asc' },
} as const;

/** `/servers`. */
function listRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  const { clock } = ports;

  guard.get('/servers', toRead, async (visit, request, reply) => {
    const { organization, actor } = visit;
    const query = listQuery(request, shape);
    const wanted = { ...query.input, organization };
    const { items, total } = await perform(serverList, wanted, actor, ports);
    const create = { text: 'Create server', href: `${dashboardPath(organization)}/new-server` };
    const rows = items.map((server) => ({
      id: server.id,
      // A disabled server may be enabled again: the badge is enough, and its name still leads to its page.
      isOver: false,
      cells: [
        {
          kind: 'name',
          text: server.name,
          href: serverPath(organization, server.name),
          badges: disabledBadges(server),
        },
        { kind: 'text', text: server.title },
        { kind: 'text', text: describeUpstream(server.upstream) },
        { kind: 'time', at: server.createdAt, otherwise: '' },
      ] as const,
    }));
    const list = {
      heading: 'Servers',
      lead: 'Every server is one MCP endpoint, with OAuth clients and API keys of its own.',
      caption: 'Servers',
      action: visit.may('server.manage') ? create : undefined,
      tabs: undefined,
      notice: queryText(request, 'done') === 'deleted' ? 'The server is deleted.' : undefined,
      query,
      rows,
      total,
      none: 'No servers yet. A server is one MCP endpoint that assistants call.',
      noneLikeThat: 'No server is like that.',
      now: clock.now(),
    };
    const at = { crumbs: [{ text: 'Servers' }], live: livePath(organization) };
    return sendListPage(reply, visit, list, at);
  });
}

const notices: Readonly<Record<string, string>> = {
  created: 'The server is created. Connect an assistant to it below.',
  enabled: 'The server serves again.',
};

/** `/servers/{server}`. */
function pageRoutes(guard: DashboardGuard, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  guard.get('/servers/:server', toRead, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const { server: name = '' } = request.params;
    const server = await perform(serverRead, { organization, server: name }, actor, ports);
    const own = await perform(ownConnectionRead, { organization, server: name }, actor, ports);
    const home = serverPath(organization, name);
    const endpoint = base + server.endpoint;
    const credential = { kind: 'person' } as const;
    const proxy = await ports.proxy();
    const data = {
      heading: server.title || server.name,
      badges: disabledBadges(server),
      description: server.description,
      tabs: serverTabs(visit, name, 'connect'),
      notice: notices[queryText(request, 'done') ?? ''],
      isDisabled: server.disabledAt !== null,
      settings: may('server.manage') ? `${home}/settings` : undefined,
      endpoint,
      facts: [
        { label: 'Calls go to', text: describeUpstream(server.upstream) },
        ...(own.isNeeded ? [ownAccountFact(own, `${home}/account`)] : []),
        { label: 'Active OAuth clients', text: String(server.activeClients) },
        { label: 'Active API keys', text: String(server.activeKeys) },
        { label: 'Active consents', text: String(server.activeGrants) },
        { label: 'Hidden tools', text: server.hiddenTools.join(', ') || 'none' },
        { label: 'Created', cell: { kind: 'time', at: server.createdAt, otherwise: '' } as const },
      ],
      configurations: assistantConfigurations({ name, url: endpoint, credential }, proxy),
      proxy,
      makes: [
        {
          permission: 'client.manage',
          text: 'Create OAuth client',
          help: 'An OAuth client: for an application that signs people in, or acts for itself.',
          href: `${home}/new-client`,
        } as const,
        {
          permission: 'key.manage',
          text: 'Generate API key',
          help: 'An API key: for an assistant or a script that can send one header.',
          href: `${home}/new-key`,
        } as const,
      ].filter(({ permission }) => may(permission)),
      now: clock.now(),
    };
    return sendDashboardPage(reply, visit, serverPage, data, { crumbs: [{ text: name }] });
  });
}

/** Whether the person's own account is connected, with a link to manage it. */
function ownAccountFact({ state }: OwnConnectionView, href: string) {
  const text = state === 'connected' ? 'connected' : 'connect it';
  return { label: 'Your account there', cell: { kind: 'name', text, href, badges: [] } as const };
}

/** A server, and the ways to connect to it; `endpoint` is its whole URL. */
interface ServerPageData {
  readonly heading: string;
  readonly badges: readonly Badge[];
  readonly description: string;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  readonly isDisabled: boolean;
  /** A link to enable it, for people who may. */
  readonly settings: string | undefined;
  readonly endpoint: string;
  readonly facts: readonly Fact[];
  /** For connecting by sign-in; they contain no secret. */
  readonly configurations: readonly AssistantConfiguration[];
  /** The source of the proxy that the configurations run. */
  readonly proxy: ProxyReference;
  /** Links to create credentials, for people who may. */
  readonly makes: readonly {
    readonly text: string;
    readonly help: string;
    readonly href: string;
  }[];
  readonly now: EpochSeconds;
}

/** A server: its endpoint, how to connect to it, and its state. */
function serverPage(data: ServerPageData, frame: Frame): Html {
  const { heading, badges, description, tabs, isDisabled, endpoint, facts, makes, now } = data;
  const content = html`${pageHeading({ heading, lead: description, badges })}
${tabNavigation(tabs)}
${isDisabled ? disabledNotice(data.settings) : statusNotice(data.notice)}
<section class="group" aria-labelledby="endpoint-heading">
<h2 id="endpoint-heading">Endpoint</h2>
${copyable(endpoint, 'the endpoint')}
${factList(facts, now)}
</section>
<section class="section" aria-labelledby="connect-heading">
<h2 id="connect-heading">Connect an assistant as yourself</h2>
<p class="help">Without any secret: the assistant opens the browser, you sign in and allow it. What it may do ends with your role here.</p>
${configurationTabs(data.configurations)}
${proxySource(data.proxy)}
</section>
${
  makes.length > 0 &&
  html`<section class="section" aria-labelledby="make-heading">
<h2 id="make-heading">Connect an application by a credential of its own</h2>
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
}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

function disabledNotice(settings: string | undefined): Html {
  const next = settings
    ? html`Enable it under <a href="${settings}">Settings</a>.`
    : 'Ask an owner or an admin to enable it.';
  return html`<p class="notice warning" role="status">
The server is disabled and answers no calls. ${next}
</p>`;
}

/** The badge of a disabled server. */
function disabledBadges({ disabledAt }: { disabledAt: number | null }): readonly Badge[] {
  return disabledAt === null ? [] : [{ text: 'disabled', tone: 'care' }];
}

const accessForm = formFor(serverGroupsSet);

/** `/servers/{server}/access`: the groups that a server is restricted to. */
function accessRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  const toManage = { permission: 'server.manage', section: 'servers' } as const;

  guard.get('/servers/:server/access', toRead, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const { server = '' } = request.params;
    const rule = await perform(serverGroupsRead, { organization, server }, actor, ports);
    const { items } = await perform(groupList, { organization }, actor, ports);
    const data = {
      name: server,
      tabs: serverTabs(visit, server, 'access'),
      notice: queryText(request, 'done') === 'saved' ? 'Saved. It counts now.' : undefined,
      action: `${serverPath(organization, server)}/access`,
      groups: items.map(({ id, name, members }) => ({
        value: id,
        text: name,
        help: members === 1 ? '1 person' : `${members} people`,
      })),
      entered: accessForm.filled({ groupIds: rule.groups.map(({ id }) => id) }),
      isOpen: rule.groups.length === 0,
      mayManage: may('server.manage'),
    };
    const crumbs = serverCrumbs(organization, server, { text: 'Access' });
    return sendDashboardPage(reply, visit, serverAccessPage, data, { crumbs });
  });

  guard.post('/servers/:server/access', toManage, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '' } = request.params;
    const input = { ...accessForm.inputOf(accessForm.read(sent)), organization, server };
    await perform(serverGroupsSet, input, actor, ports);
    const next = `${serverPath(organization, server)}/access?done=saved`;
    return seeOther(reply, next);
  });
}

/** The groups of an organization, and which of them a server is restricted to. */
interface ServerAccessPageData {
  readonly name: string;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  readonly action: string;
  readonly groups: readonly FieldChoice[];
  readonly entered: Entered;
  readonly isOpen: boolean;
  readonly mayManage: boolean;
}

/** Who may use a server: every member, or some groups. */
function serverAccessPage(data: ServerAccessPageData, frame: Frame): Html {
  const { name, tabs, action, groups, entered, isOpen, mayManage } = data;
  const lead = isOpen
    ? 'Every member of the organization may use this server.'
    : 'Only the chosen groups may use this server, owners included.';
  const options = { focus: false, here: { group: { choices: groups } } };
  const fields = html`${accessForm.fields(entered, [], options)}
${mayManage && html`<div class="actions"><button class="primary">Save</button></div>`}`;
  const none = html`<div class="empty">
<p>There are no groups yet. Make one under Groups to keep this server to it.</p>
</div>`;
  const content = html`${pageHeading({ heading: name, lead })}
${tabNavigation(tabs)}
${statusNotice(data.notice)}
${groups.length === 0 ? none : postForm(frame, { action }, fields)}`;
  return layout({ title: `Access of ${name}`, width: 'text' }, frame, content);
}

/** The server that the path names. @throws {AdministrationRefusal} `not_found` */
export function serverOf(
  { organization, actor }: DashboardVisit,
  { params }: DashboardRequest,
  ports: DashboardPorts,
) {
  return perform(serverRead, { organization, server: params['server'] ?? '' }, actor, ports);
}

/** The path of a server's page. */
export function serverPath(organization: string, server: string): string {
  return `${dashboardPath(organization)}/servers/${server}`;
}

/** The pages of a server in order; each appears once its condition is met. */
const pages = [
  { tab: 'connect', text: 'Connect', path: '', isThere: true, needs: 'server.read' },
  { tab: 'clients', text: 'OAuth clients', path: '/clients', isThere: true, needs: 'client.read' },
  { tab: 'keys', text: 'API keys', path: '/keys', isThere: true, needs: 'key.read' },
  { tab: 'try', text: 'Try it', path: '/try', isThere: true, needs: 'server.try' },
  { tab: 'tools', text: 'Tools', path: '/tools', isThere: true, needs: 'server.read' },
  { tab: 'access', text: 'Access', path: '/access', isThere: true, needs: 'server.read' },
  {
    tab: 'upstream',
    text: 'Authorization',
    path: '/upstream',
    isThere: true,
    needs: 'server.manage',
  },
  {
    tab: 'settings',
    text: 'Settings',
    path: '/settings',
    isThere: true,
    needs: 'server.manage',
  },
] as const;

/** A page of a server, as a key for `serverTabs`. */
type ServerTab = (typeof pages)[number]['tab'];

/** The tabs of a server that this person may see. */
export function serverTabs({ organization, may }: DashboardVisit, server: string, here: ServerTab) {
  const home = serverPath(organization, server);
  return {
    label: `Server ${server}`,
    entries: pages
      .filter(({ isThere, needs }) => isThere && may(needs))
      .map(({ tab, text, path }) => ({ text, href: home + path, isHere: tab === here })),
  };
}

/** The breadcrumb of a server's page: the server, and the pages below it. */
export function serverCrumbs(
  organization: string,
  server: string,
  ...more: readonly Crumb[]
): readonly Crumb[] {
  return [{ text: server, href: serverPath(organization, server) }, ...more];
}
