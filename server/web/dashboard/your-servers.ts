import { notFound } from '#admin/refusal';
import { findOrganization } from '#db/organizations';
import { typedStart } from '#download/proxy-reference';
import { storedSentence } from '#model/call-contents';
import { catalogueOf, type AskableServer, type CataloguedServer } from '#oauth/catalogue';
import { deviceName } from '#web/access-words';
import { applicationName } from '#web/consent';
import { displayName, html, type Html } from '#web/html';
import { codeBlock, executablesNote } from '#web/instructions';
import {
  badge,
  dashboardPath,
  layout,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Badge,
  type Frame,
  type Tabs,
} from '#web/layout';
import { queryChoice } from '#web/page-request';
import { relativeTime } from '#web/tables';
import { titleMarkup, titleText } from '#web/titles';
import { findActorNames, type ActorName } from './actors.ts';
import { activityPath } from './calls.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { healthOfAll, serverBadge } from './health.ts';
import { livePath } from './live.ts';
import { renewedPart } from './lists.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { inWords } from './questions.ts';
import { serverPath } from './server-tabs.ts';

const home = '/my-servers';
const needs = 'organization.read';

/** `/my-servers`: the servers that the person may use here, the applications that use them, and the servers that they may ask for. */
export function yourServersRoutes(guard: DashboardGuard): void {
  guard.get(home, needs, showOwnServers);
}

/** The path of the page of a person's servers. */
export function ownServersPath(organization: string): string {
  return dashboardPath(organization) + home;
}

const notices: Readonly<Record<string, string>> = {
  asked: 'Request sent. The administrators of the organization decide about it.',
  withdrawn: 'Request withdrawn.',
};

const showOwnServers: PageHandler = async (visit, request, reply, { ports }: DashboardOptions) => {
  const data = { ...(await ownServers(visit, request, ports)), tabs: ownTabs(visit, 'servers') };
  const at = { crumbs: [{ text: 'Your servers' }], live: livePath(visit.organization) };
  return sendDashboardPage(reply, visit, yourServersPage, data, at);
};

/** The tabs of the pages about the servers and applications that the person uses. */
export function ownTabs(
  { organization }: Pick<DashboardVisit, 'organization'>,
  here: 'servers' | 'applications',
): Tabs {
  const base = dashboardPath(organization);
  return {
    label: 'What you use',
    entries: [
      { text: 'Servers', href: base + home, isHere: here === 'servers' },
      { text: 'Applications', href: `${base}/applications`, isHere: here === 'applications' },
    ],
  };
}

/** The servers that the person may use, each with its status, and those that they may ask for. */
export async function ownServers(
  { organization, titled, person }: DashboardVisit,
  request: DashboardRequest,
  ports: DashboardPorts,
) {
  const found = await findOrganization(ports.db, organization);
  if (!found) throw notFound('organization');
  const { servers, askable } = await catalogueOf(person.user.id, found, ports);
  const health = await healthOfAll(servers, ports);
  return {
    here: request.url,
    notice: queryChoice(request, 'done', notices),
    own: `${dashboardPath(organization)}/applications`,
    servers: servers.map((server) => {
      const status = health.get(server.id);
      const href = serverPath(organization, server.name);
      return {
        server,
        href,
        status: status && serverBadge(status),
        uses: usesOf(server),
        missing: server.missing && { ...missingWords[server.missing], href: `${href}/account` },
        stored: storedSentence(titleText(titled), server.contents),
        activity: activityPath(organization, { endpoint: server.id }),
      };
    }),
    askable: askable.map((server) => ({
      server,
      href: `${serverPath(organization, server.name)}/ask`,
    })),
    base: ports.base,
    proxy: await ports.proxy(),
    actor: await findActorNames(
      ports.db,
      askable.map(({ request: asked }) => asked?.decidedBy),
    ),
    now: ports.clock.now(),
  };
}

type YourServersPageData = Awaited<ReturnType<typeof ownServers>> & { readonly tabs?: Tabs };

const missingWords = {
  account: { state: 'Needs your account', step: 'Connect your account' },
  key: { state: 'Needs your key', step: 'Enter your key' },
} as const;

const mostNamed = 3;
const mostDevices = 5;

/** The applications that use a server, by device: `Claude Desktop and Cursor on danas-macbook (macOS)`. */
function usesOf({ grants }: CataloguedServer): readonly string[] {
  const byDevice = Map.groupBy(grants, ({ device }) => (device ? deviceName(device) : ''));
  const uses = [...byDevice].map(([device, of]) => {
    const names = [...new Set(of.map(applicationName))];
    const more = names.length - mostNamed;
    const all = more > 0 ? [...names.slice(0, mostNamed), `${more} more`] : names;
    return `${inWords(all)}${device && ` on ${device}`}`;
  });
  const more = uses.length - mostDevices;
  return more > 0 ? [...uses.slice(0, mostDevices), `${more} more devices`] : uses;
}

/** A card for each server that the person may use, and for each one that they may ask for. */
export function yourServersPage(data: YourServersPageData, frame: Frame): Html {
  const { servers, askable, own, tabs } = data;
  const heading = 'Your servers';
  const lead =
    servers.length > 0
      ? 'Connect your AI assistant to a server to use its tools.'
      : askable.length > 0
        ? 'You cannot use any server yet. Ask for access to one below.'
        : 'You cannot use any server yet. Ask an administrator of the organization for access.';
  const usable = html`<ul class="cards" id="servers" data-row>
${servers.map(usableCard)}
</ul>`;
  const cards = html`${servers.length > 0 && usable}
${
  askable.length > 0 &&
  html`<section class="section" aria-labelledby="askable-heading">
<h2 id="askable-heading">You can ask for access</h2>
<ul class="cards" id="askable" data-row>
${askable.map((one) => askableCard(one, data))}
</ul>
</section>`
}`;
  const content = html`${pageHeading({ heading, lead })}
${tabs && tabNavigation(tabs)}
${statusNotice(data.notice)}
${renewedPart(data.here, cards)}
${servers.length > 0 && setupSection(data)}
${!tabs && html`<p><a href="${own}">Applications that act for you here</a></p>`}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

/** How to connect a computer to several servers at once. */
function setupSection({ base, proxy }: Pick<YourServersPageData, 'base' | 'proxy'>): Html {
  const heading = 'Connect a computer to several servers at once';
  return html`<section class="section" aria-labelledby="setup-heading">
<h2 id="setup-heading">${heading}</h2>
<p class="help">In a terminal, with Node.js 22.19 or newer. The command signs you in once and lists your servers: choose servers, and the assistants that use them. Run it again on a new computer.</p>
${codeBlock({ text: `${typedStart(proxy)} setup ${base}`, name: 'the command', label: 'The command' })}
${executablesNote(proxy)}
</section>`;
}

function usableCard({
  server,
  href,
  status,
  uses,
  missing,
  stored,
  activity,
}: YourServersPageData['servers'][number]): Html {
  const title = titleText(server);
  const connect = html`<a class="button" href="${href}#connect-heading" aria-label="Connect to ${title}">Connect</a>`;
  return html`<li class="card">
<div class="card-head">
<h2>${titleMarkup(server)}</h2>
${status && badge(status)}
</div>
${server.description && html`<p class="soft" dir="auto">${displayName(server.description, 240)}</p>`}
${
  uses.length === 0
    ? html`<p class="soft">You do not use it yet.</p>`
    : html`<p class="soft" dir="auto">In use by ${uses.join('; ')}</p>`
}
${missing && html`<p>${badge({ text: missing.state, tone: 'care' })} <a href="${missing.href}" aria-label="${missing.step} for ${title}">${missing.step}</a></p>`}
${stored !== undefined && html`<p class="soft" dir="auto">${stored}</p>`}
<p>${connect} ${uses.length > 0 && html`<a href="${activity}" aria-label="Your calls to ${title}">Your calls</a>`}</p>
</li>`;
}

const requestBadges = {
  open: { text: 'Asked', tone: 'care' },
  declined: { text: 'Declined', tone: 'bad' },
} as const satisfies Readonly<Record<string, Badge>>;

function askableCard(
  { server, href }: YourServersPageData['askable'][number],
  { actor, now }: Pick<YourServersPageData, 'actor' | 'now'>,
): Html {
  const title = titleText(server);
  const { request } = server;
  const status =
    request?.status === 'open' || request?.status === 'declined' ? request.status : undefined;
  return html`<li class="card">
<div class="card-head">
<h3>${titleMarkup(server)}</h3>
${status && badge(requestBadges[status])}
</div>
${server.description && html`<p class="soft" dir="auto">${displayName(server.description, 240)}</p>`}
${requestWords(request, actor, now)}
<p>${
    status === 'open'
      ? html`<a class="button" href="${href}/withdraw" aria-label="Withdraw request for ${title}" data-question>Withdraw request</a>`
      : html`<a class="button" href="${href}" aria-label="${askWords(status)} ${status === 'declined' ? 'for' : 'to'} ${title}">${askWords(status)}</a>`
  }</p>
</li>`;
}

function askWords(status: 'open' | 'declined' | undefined): string {
  return status === 'declined' ? 'Ask again' : 'Ask for access';
}

function requestWords(request: AskableServer['request'], actor: ActorName, now: number): Html {
  switch (request?.status) {
    case 'open':
      return html`<p class="soft" dir="auto">You asked ${relativeTime(request.createdAt, now)}: ${displayName(request.reason, 240)}</p>`;
    case 'declined':
      return html`<p class="soft" dir="auto">${actor(request.decidedBy ?? '')} declined ${relativeTime(request.decidedAt ?? now, now)}: ${displayName(request.answer, 240)}</p>`;
    case 'granted':
    case 'withdrawn':
    case undefined:
      return html`<p class="soft">You cannot use it yet.</p>`;
  }
}
