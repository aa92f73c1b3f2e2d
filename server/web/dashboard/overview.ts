import { listAuditEvents } from '#db/audit';
import { attentionKind, attentionList, type AttentionView } from '#admin/attention';
import { type AdministrationPorts } from '#admin/operation';
import { notFound } from '#admin/refusal';
import { invitationList } from '#admin/invitations';
import { personList } from '#admin/people';
import { serverList, type ServerView } from '#admin/servers';
import type { EpochSeconds } from '#model/clock';
import { hasGrants } from '#db/grants';
import { findOrganization } from '#db/organizations';
import { readServerUsage, type UsageSum } from '#usage/read-usage';
import { displayName, html, type Html } from '#web/html';
import { badge, dashboardPath, layout, pageHeading, type Frame } from '#web/layout';
import { callPlots, callWords, msWords, shareWords, usageNumbers } from '#web/plots';
import { dataTable, relativeTime, type Table, timeCell } from '#web/tables';
import { titleText } from '#web/titles';
import { zoneNote } from '#web/times';
import { auditSentencesOf } from './audit.ts';
import {
  activityPath,
  callsFor,
  callsHref,
  callTable,
  daySeconds,
  unrecordedNote,
} from './calls.ts';
import type { DashboardGuard, DashboardVisit, PageHandler } from './guard.ts';
import { livePath, queryCache, type QueryCache } from './live.ts';
import { sendDashboardPage } from './page.ts';
import { noticesPath } from './notices.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { readRefusals, refusalSection } from './refusals.ts';
import { serverPath } from './server-tabs.ts';
import { usagePath } from './usage-query.ts';
import { ownServers, yourServersPage } from './your-servers.ts';

const needs = 'organization.read';
const day = { range: '24h', kind: 'server' } as const;
const minute = 60;

/** `/dashboard/{organization}`: what needs attention and the endpoints' last 24 hours; for people who manage no servers, their own servers. */
export function overviewRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  guard.get('', needs, showOverview(queryCache(ports.changes)));
}

const showOverview =
  (cached: QueryCache): PageHandler =>
  async (visit, request, reply, { base, ports }) => {
    const { organization, role, may } = visit;
    const now = ports.clock.now();
    if (!may('server.manage')) {
      const own = await ownServers(visit, request, ports);
      const at = { crumbs: [], live: livePath(organization) };
      return sendDashboardPage(reply, visit, yourServersPage, own, at);
    }
    const key = [organization, role, now - (now % minute)];
    const facts = await cached(key, () => overviewFacts(visit, ports));
    const data = await overviewData(visit, facts, { base, now, ports });
    return sendDashboardPage(reply, visit, overviewPage, data, { crumbs: [] });
  };

async function overviewData(
  visit: DashboardVisit,
  facts: Awaited<ReturnType<typeof overviewFacts>>,
  { base, now, ports }: { base: string; now: EpochSeconds; ports: DashboardPorts },
) {
  const { organization, may } = visit;
  const { servers, total, calls, plots, numbers, usage, refusals } = facts;
  const home = dashboardPath(organization);
  const create = { text: 'Create server', href: `${home}/new-server` };
  const action = may('server.manage') ? create : undefined;
  return {
    heading: visit.titled,
    lead: `${total} ${total === 1 ? 'server' : 'servers'}, ${callWords(calls)} ${calls === 1 ? 'call' : 'calls'} in the last 24 hours.`,
    action,
    steps: firstSteps(organization, facts),
    plots,
    numbers,
    usage: usagePath(organization, day),
    endpoints: endpointTable(servers, usage, { base, now, action }),
    servers:
      total > servers.length
        ? { text: `All ${total} servers`, href: `${home}/servers` }
        : undefined,
    // Not cached: calls appear as time passes, without a further write.
    failures: await readFailures(visit, ports),
    auditors: facts.auditors,
    attention: facts.attention,
    notices: may('notice.manage') ? noticesPath(organization) : undefined,
    now,
    activity: activityPath(organization, { outcome: 'failed' }),
    refusals: refusals && refusalSection(organization, refusals, now),
  };
}

type OverviewPageData = Awaited<ReturnType<typeof overviewData>>;

const mostServers = 10;

/** The contents of the overview for this role: what needs attention, endpoints with the last 24 hours, refusals. */
async function overviewFacts(visit: DashboardVisit, ports: DashboardPorts) {
  const { organization, perform, may } = visit;
  const found = await findOrganization(ports.db, organization);
  if (!found) throw notFound('organization');
  const { items: servers, total } = await perform(serverList, { sort: 'name', limit: mostServers });
  const of = { organizationId: found.id, range: '24h' } as const;
  const ids = servers.map(({ id }) => id);
  const reading = await readServerUsage(of, ids, ports.clock.now(), ports);
  const { calls } = reading.total;
  const hrefs = callsHref(organization, reading.stepSeconds);
  const people = await perform(personList, { limit: 2 });
  const invited = await perform(invitationList);
  return {
    servers,
    total,
    calls,
    plots: calls === 0 ? [] : callPlots(reading, hrefs),
    numbers: calls === 0 ? undefined : usageNumbers(reading, hrefs),
    isConnected: calls > 0 || (await hasGrants(ports.db, found.id)),
    hasPeople: people.items.length > 1 || invited.items.length > 0,
    usage: reading.servers,
    refusals: may('audit.read') ? await readRefusals(organization, ports) : undefined,
    auditors: may('owners.manage') ? await readAuditors(organization, ports) : undefined,
    attention: await perform(attentionList),
  };
}

const mostFailures = 5;

/** The last calls that failed or were refused, as a table; `undefined` for people who may not see them. */
async function readFailures(visit: DashboardVisit, ports: DashboardPorts) {
  if (!visit.may('activity.read')) return undefined;
  const fromMs = (ports.clock.now() - daySeconds) * 1000;
  const filter = { end: 'failed', fromMs } as const;
  const { calls } = await callsFor(visit, { filter, limit: mostFailures, budgetMs: 200 }, ports);
  const words = {
    caption: 'The last failed and refused calls',
    empty: 'No failed calls.',
    hasRemedies: true,
  };
  return callTable(visit, calls, words, ports);
}

const auditorDays = 30;

/**
 * The people who recently got the Auditor right, for all owners. They come from the audit log, so that neither giving the right back nor
 * removing the person hides them.
 */
async function readAuditors(
  organization: string,
  { db, clock }: AdministrationPorts,
): Promise<Table | undefined> {
  const now = clock.now();
  const events = await listAuditEvents(db, {
    organization,
    action: 'person.grant-auditor',
    outcome: 'done',
    from: now - auditorDays * daySeconds,
    limit: 50,
  });
  if (events.length === 0) return undefined;
  const sentenceOf = await auditSentencesOf(organization, events, db);
  return {
    caption: 'Who was given the Auditor right',
    columns: ['What happened', 'When'],
    rows: events.map((event, place) => ({
      id: `auditor-${place}`,
      cells: [
        {
          kind: 'sentence',
          sentence: sentenceOf(event),
          badges:
            event.actor === event.target ? [{ text: 'To themselves', tone: 'bad' } as const] : [],
          facts: [],
        },
        timeCell(event.at),
      ],
    })),
    empty: { text: '' },
    now,
  };
}

/** Servers with their calls of the last 24 hours. */
function endpointTable(
  servers: readonly ServerView[],
  usage: ReadonlyMap<string, UsageSum>,
  {
    base,
    now,
    action,
  }: {
    base: string;
    now: EpochSeconds;
    action: { text: string; href: string } | undefined;
  },
): Table {
  const columns = ['Server', 'Endpoint', 'Calls', 'Errors', 'Time (p90)'];
  const rows = servers.map((server) => {
    const { id, organization, name, endpoint, disabledAt } = server;
    const total = usage.get(id);
    const badges = disabledAt === null ? [] : [{ text: 'Disabled', tone: 'care' } as const];
    const href = serverPath(organization, name);
    const calls = total?.calls ?? 0;
    const values = [callWords(calls), shareWords(total?.errors ?? 0, calls), msWords(total?.p90)];
    return {
      id,
      isOver: disabledAt !== null,
      cells: [
        { kind: 'title', of: server, href, badges } as const,
        { kind: 'address', text: base + endpoint } as const,
        ...values.map((text) => ({ kind: 'text', text }) as const),
      ],
    };
  });
  const text = 'No servers yet. A server is one MCP endpoint that assistants call.';
  return {
    caption: 'Endpoints, with the last 24 hours',
    columns,
    rows,
    empty: { text, action },
    now,
  };
}

/** One of the first things to do in an organization, ticked once it is done. */
interface FirstStep {
  readonly text: string;
  /** Where to do it; `undefined` while an earlier step is missing. */
  readonly href: string | undefined;
  readonly help: string;
  readonly isDone: boolean;
}

/** The first steps in a new organization; none once all of them are done. */
function firstSteps(
  organization: string,
  { servers, total, isConnected, hasPeople }: Awaited<ReturnType<typeof overviewFacts>>,
): readonly FirstStep[] {
  const home = dashboardPath(organization);
  const [first] = servers;
  // Without a server there is nothing to connect to.
  const connect = first && serverPath(organization, first.name);
  const steps = [
    {
      text: 'Create a server',
      href: `${home}/new-server`,
      help: 'An MCP server whose tools your assistants use.',
      isDone: total > 0,
    },
    {
      text: 'Connect an assistant',
      href: connect,
      help: 'Set up Claude, Cursor or another assistant with the address of the server.',
      isDone: isConnected,
    },
    {
      text: 'Invite people',
      href: `${home}/people`,
      help: 'People sign in with their own account and connect their own assistants.',
      isDone: hasPeople,
    },
  ];
  return steps.every(({ isDone }) => isDone) ? [] : steps;
}

function firstStepList(steps: readonly FirstStep[]): Html {
  return html`<section class="section" aria-labelledby="steps-heading">
<h2 id="steps-heading">First steps</h2>
<ol class="first-steps" id="first-steps" data-row>
${steps.map(
  ({ text, href, help, isDone }) =>
    html`<li class="${isDone ? 'done' : 'open'}">${isDone ? html`<span>${text}</span> ${badge({ text: 'Done', tone: 'good' })}` : html`${href === undefined ? text : html`<a href="${href}">${text}</a>`}<p class="help">${help}</p>`}</li>`,
)}
</ol>
</section>`;
}

/** The start page of an organization: its endpoints, the last 24 hours, and what needs attention. */
function overviewPage(data: OverviewPageData, frame: Frame): Html {
  const { heading, lead, action, plots, usage, endpoints, servers } = data;
  const content = html`${pageHeading({ heading, lead, action })}
${
  data.auditors &&
  html`<section class="section" aria-labelledby="auditors-heading">
<h2 id="auditors-heading">New auditors</h2>
<p class="notice warning">In the last ${auditorDays} days, these people were given the right to read stored arguments and results of calls. Every owner sees this.</p>
${dataTable(data.auditors)}
</section>`
}
${data.steps.length > 0 && firstStepList(data.steps)}
${attentionSection(data)}
<section class="section" aria-labelledby="calls-heading">
<h2 id="calls-heading">Last 24 hours</h2>
${
  plots.length === 0
    ? html`<p class="lead">No calls yet. A call appears here within seconds.</p>`
    : html`<div class="plots">${plots}</div>
${unrecordedNote()}
${data.numbers}
<p><a href="${usage}">View usage</a> ${zoneNote()}</p>`
}
</section>
${
  data.failures &&
  data.failures.rows.length > 0 &&
  html`<section class="section" aria-labelledby="failures-heading">
<h2 id="failures-heading">Failed and refused calls</h2>
${dataTable(data.failures)}
<p><a href="${data.activity}">View all failed calls</a></p>
</section>`
}
<section class="section" aria-labelledby="endpoints-heading">
<h2 id="endpoints-heading">Endpoints</h2>
${dataTable(endpoints)}
${servers && html`<p><a href="${servers.href}">${servers.text}</a></p>`}
</section>
${data.refusals}`;
  return layout({ title: titleText(heading), width: 'table' }, frame, content);
}

/** How many things of one kind are shown before the rest is folded. */
const mostShown = 3;

/** Lists the matters that need attention by kind, each with its action. */
function attentionSection({
  attention: { items, more },
  notices,
  now,
}: Pick<OverviewPageData, 'attention' | 'notices' | 'now'>): Html {
  const kinds = [...Map.groupBy(items, ({ kind }) => kind)];
  return html`<section class="section" aria-labelledby="attention-heading">
<h2 id="attention-heading">Needs attention</h2>
${
  kinds.length === 0
    ? html`<p class="lead">Nothing needs attention.</p>`
    : html`<ul class="rows attention">${kinds.map(([kind, some]) => {
        const folded = some.slice(mostShown);
        return html`${some.slice(0, mostShown).map((one) => attentionRow(one, now))}
${
  folded.length > 0 &&
  html`<li class="folded"><details>
<summary>${foldedWords(folded.length, more.includes(kind))}: ${attentionKind(kind).label}</summary>
<ul class="rows">${folded.map((one) => attentionRow(one, now))}</ul>
</details></li>`
}`;
      })}</ul>`
}
${notices && html`<p><a href="${notices}">Choose notices by e-mail</a></p>`}
</section>`;
}

function foldedWords(count: number, isMore: boolean): string {
  if (isMore) return `${count} or more others`;
  return count === 1 ? '1 other' : `${count} others`;
}

function attentionRow(
  { state, tone, text, at, action, kind, subject }: AttentionView,
  now: EpochSeconds,
): Html {
  return html`<li id="attention-${kind}-${subject.replaceAll(/[^a-z0-9_]+/gi, '-')}" data-row>
<div>${badge({ text: state, tone })} <span dir="auto">${displayName(text, longestAttention)}</span>${at !== null && html` <span class="help">${relativeTime(at, now)}</span>`}</div>
<a class="button" href="${action.path}">${action.text}<span class="unseen">: ${displayName(text, longestAttention)}</span></a>
</li>`;
}

/** The text may contain a title and an address. */
const longestAttention = 400;
