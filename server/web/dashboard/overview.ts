import { listAuditEvents } from '#db/audit';
import { countWaitingDefinitions } from '#db/definitions';
import { type AdministrationPorts } from '#admin/operation';
import { notFound } from '#admin/refusal';
import { invitationList } from '#admin/invitations';
import { keyList, type KeyView } from '#admin/keys';
import { leaverList } from '#admin/leavers';
import { personList } from '#admin/people';
import { serverList, type ServerView } from '#admin/servers';
import type { EpochSeconds } from '#model/clock';
import { hasGrants } from '#db/grants';
import { findOrganization } from '#db/organizations';
import { findServerTitles } from '#db/servers';
import { readServerUsage, type UsageSum } from '#usage/read-usage';
import { displayName, html, type Html } from '#web/html';
import { badge, dashboardPath, layout, pageHeading, type Frame, type Link } from '#web/layout';
import { callPlots, callWords, msWords, shareWords, usageNumbers } from '#web/plots';
import { dataTable, type Table, timeCell } from '#web/tables';
import { type Titled, titleText } from '#web/titles';
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
import { ownerlessPath } from './ownerless.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { counted } from './questions.ts';
import { serverPath } from './servers.ts';
import { usagePath } from './usage-query.ts';
import { ownServers, yourServersPage } from './your-servers.ts';

const needs = 'organization.read';
const day = { range: '24h', kind: 'server' } as const;
const minute = 60;

/** `/dashboard/{organization}`: its endpoints with the last 24 hours, old keys and refusals. */
export function overviewRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  guard.get('', needs, showOverview(queryCache(ports.changes)));
}

const showOverview =
  (cached: QueryCache): PageHandler =>
  async (visit, _request, reply, { base, ports }) => {
    const { organization, role, may } = visit;
    const now = ports.clock.now();
    if (!may('server.manage')) {
      const own = await ownServers(visit, ports);
      const at = { crumbs: [], live: livePath(organization) };
      return sendDashboardPage(reply, visit, yourServersPage, own, at);
    }
    const key = [organization, role, now - (now % minute)];
    const facts = await cached(key, () => overviewFacts(visit, ports));
    const { servers, total, calls, plots, numbers, usage, hasMoreOldKeys, refusals } = facts;
    const home = dashboardPath(organization);
    const create = { text: 'Create server', href: `${home}/new-server` };
    const action = may('server.manage') ? create : undefined;
    const data = {
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
      ownerless:
        facts.ownerless === 0
          ? undefined
          : {
              text: `${counted(facts.ownerless, 'key, client or agent needs', 'keys, clients and agents need')} an owner`,
              href: ownerlessPath(organization),
            },
      reviews: facts.reviews.map(({ name, waiting }) => ({
        text: `${counted(waiting, 'definition')} of ${name}`,
        href: `${serverPath(organization, name)}/tools/review`,
      })),
      activity: activityPath(organization, { outcome: 'failed' }),
      keys: oldKeyTable(organization, facts, now),
      moreKeys: hasMoreOldKeys ? 'These are the oldest keys. There are more.' : undefined,
      refusals: refusals && refusalTable(refusals, now),
    };
    return sendDashboardPage(reply, visit, overviewPage, data, { crumbs: [] });
  };

/** A denied request as the overview shows it. */
interface RefusedEvent {
  readonly at: EpochSeconds;
  readonly sentence: Html;
}

const mostServers = 10;
const mostKeys = 5;
const mostRefusals = 5;
const oldKeyDays = 90;

/** The contents of the overview for this role: endpoints with the last 24 hours, old keys, refusals. */
async function overviewFacts(visit: DashboardVisit, ports: DashboardPorts) {
  const { organization, perform, may } = visit;
  const found = await findOrganization(ports.db, organization);
  if (!found) throw notFound('organization');
  const { items: servers, total } = await perform(serverList, { sort: 'name', limit: mostServers });
  const of = { organizationId: found.id, range: '24h' } as const;
  const ids = servers.map(({ id }) => id);
  const reading = await readServerUsage(of, ids, ports.clock.now(), ports);
  const { calls } = reading.total;
  // One more than is shown, to find out whether there are more.
  const oldest = { status: 'active', sort: 'created_at', order: 'asc', limit: mostKeys + 1 };
  const { items } = await perform(keyList, oldest);
  const people = await perform(personList, { limit: 2 });
  const invited = await perform(invitationList);
  const oldKeys = items.filter(({ ageDays }) => ageDays >= oldKeyDays);
  const keyServers = oldKeys.flatMap(({ server }) => server ?? []);
  return {
    servers,
    total,
    calls,
    plots: calls === 0 ? [] : callPlots(reading, callsHref(organization, reading.stepSeconds)),
    numbers: calls === 0 ? undefined : usageNumbers(reading),
    isConnected: calls > 0 || (await hasGrants(ports.db, found.id)),
    hasPeople: people.items.length > 1 || invited.items.length > 0,
    usage: reading.servers,
    oldKeys: oldKeys.slice(0, mostKeys),
    keyServerTitles: await findServerTitles(ports.db, organization, keyServers),
    hasMoreOldKeys: oldKeys.length > mostKeys,
    refusals: may('audit.read') ? await readRefusals(organization, ports) : undefined,
    auditors: may('owners.manage') ? await readAuditors(organization, ports) : undefined,
    reviews: may('server.manage') ? await countWaitingDefinitions(ports.db, found.id) : [],
    ownerless: may('agent.read') ? (await perform(leaverList)).items.length : 0,
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

/** Each as a sentence. */
async function readRefusals(
  organization: string,
  { db }: AdministrationPorts,
): Promise<RefusedEvent[]> {
  const wanted = { organization, outcome: 'refused', limit: mostRefusals } as const;
  const found = await listAuditEvents(db, wanted);
  const events = found.map(({ at, actor, action, target = null, outcome }) => {
    return { at, actor, action, target, outcome };
  });
  const sentenceOf = await auditSentencesOf(organization, events, db);
  return events.map((event) => ({ at: event.at, sentence: sentenceOf(event) }));
}

const auditorDays = 30;

/**
 * Who got the right Auditor lately, for all owners. From the audit log, so that neither giving the right back nor removing the person
 * hides it.
 */
async function readAuditors(
  organization: string,
  { db, clock }: AdministrationPorts,
): Promise<Table | undefined> {
  const now = clock.now();
  const found = await listAuditEvents(db, {
    organization,
    action: 'person.grant-auditor',
    outcome: 'done',
    from: now - auditorDays * daySeconds,
    limit: 50,
  });
  if (found.length === 0) return undefined;
  const events = found.map(({ at, actor, action, target = null, outcome }) => {
    return { at, actor, action, target, outcome };
  });
  const sentenceOf = await auditSentencesOf(organization, events, db);
  return {
    caption: 'Who was given the right Auditor',
    columns: ['What happened', 'When'].map((text) => ({ text })),
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
  const columns = ['Server', 'Endpoint', 'Calls', 'Errors', 'p90'].map((text) => ({ text }));
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

/** Active keys older than the ninety days after which rotation is due. */
function oldKeyTable(
  organization: string,
  {
    oldKeys,
    keyServerTitles,
  }: {
    readonly oldKeys: readonly KeyView[];
    readonly keyServerTitles: ReadonlyMap<string, string>;
  },
  now: EpochSeconds,
): Table {
  return {
    caption: 'API keys older than 90 days',
    columns: ['Key', 'Server', 'Age', 'Last used'].map((text) => ({ text })),
    rows: oldKeys.map(({ id, name, server, ageDays, lastUsedAt }) => {
      const href = server === null ? undefined : `${serverPath(organization, server)}/keys`;
      return {
        id,
        cells: [
          { kind: 'name', text: displayName(name), ...(href !== undefined && { href }) } as const,
          server === null
            ? ({ kind: 'text', text: '' } as const)
            : ({
                kind: 'title',
                of: { name: server, title: keyServerTitles.get(server) },
              } as const),
          { kind: 'text', text: `${ageDays} days` } as const,
          timeCell(lastUsedAt, 'Never'),
        ],
      };
    }),
    empty: { text: 'No API keys are due for rotation. A key appears here when it is 90 days old.' },
    now,
  };
}

/** Recent refusals, newest first. */
function refusalTable(events: readonly RefusedEvent[], now: EpochSeconds): Table {
  return {
    caption: 'Requests that were denied recently',
    columns: ['What happened', 'When'].map((text) => ({ text })),
    rows: events.map(({ at, sentence }, place) => ({
      id: `refusal-${place}`,
      cells: [{ kind: 'sentence', sentence, badges: [], facts: [] }, timeCell(at)],
    })),
    empty: { text: 'No denied requests.' },
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

/** What is left to do in a new organization; nothing once all of it is done. */
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
      text: 'Add a server',
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

interface OverviewPageData {
  readonly heading: Titled;
  readonly lead: string;
  readonly action: Link | undefined;
  /** Empty once all are done. */
  readonly steps: readonly FirstStep[];
  /** Plots of calls and errors in the last 24 hours; empty without calls. */
  readonly plots: readonly Html[];
  /** The same as a table. */
  readonly numbers: Html | undefined;
  readonly usage: string;
  readonly endpoints: Table;
  /** A link to all servers, if some are missing here. */
  readonly servers: Link | undefined;
  /** For people who may see all calls. */
  readonly failures: Table | undefined;
  /** Who was given the right Auditor lately; for owners. */
  readonly auditors: Table | undefined;
  /** What people who left had created; for people who may hand it over. */
  readonly ownerless: Link | undefined;
  /** Servers of which definitions wait for review. */
  readonly reviews: readonly Link[];
  /** The page with all failed calls. */
  readonly activity: string;
  readonly keys: Table;
  /** How many more there are. */
  readonly moreKeys: string | undefined;
  /** For people who may read the audit log. */
  readonly refusals: Table | undefined;
}

/** The start page of an organization: its endpoints, the last 24 hours, and what needs attention. */
function overviewPage(data: OverviewPageData, frame: Frame): Html {
  const { heading, lead, action, plots, usage, endpoints, servers, keys, moreKeys } = data;
  const content = html`${pageHeading({ heading, lead, action })}
${
  data.auditors &&
  html`<section class="section" aria-labelledby="auditors-heading">
<h2 id="auditors-heading">New auditors</h2>
<p class="notice warning">In the last ${auditorDays} days, these people were given the right to read stored arguments and results of calls. Every owner sees this.</p>
${dataTable(data.auditors)}
</section>`
}
${data.ownerless && html`<p class="notice warning">People who left had created credentials. <a href="${data.ownerless.href}">${data.ownerless.text}</a></p>`}
${data.reviews.length > 0 && html`<p class="notice warning">What servers say to assistants waits for review: ${data.reviews.map(({ text, href }, place) => html`${place > 0 && ', '}<a href="${href}">${text}</a>`)}</p>`}
${data.steps.length > 0 && firstStepList(data.steps)}
<section class="group" aria-labelledby="calls-heading">
<h2 id="calls-heading">Last 24 hours</h2>
${
  plots.length === 0
    ? html`<p class="lead">No calls yet. A call appears here within seconds.</p>`
    : html`<div class="plots beside">${plots}</div>
${unrecordedNote()}
${data.numbers}
<p><a href="${usage}">View usage</a> ${zoneNote()}</p>`
}
</section>
${
  data.failures &&
  html`<section class="section" aria-labelledby="failures-heading">
<h2 id="failures-heading">Failed and refused calls</h2>
${tableOrLead(data.failures)}
${data.failures.rows.length > 0 && html`<p><a href="${data.activity}">View all failed calls</a></p>`}
</section>`
}
<section class="section" aria-labelledby="endpoints-heading">
<h2 id="endpoints-heading">Endpoints</h2>
${dataTable(endpoints)}
${servers && html`<p><a href="${servers.href}">${servers.text}</a></p>`}
</section>
<section class="section" aria-labelledby="keys-heading">
<h2 id="keys-heading">API keys to rotate</h2>
${tableOrLead(keys)}
${moreKeys && html`<p class="help">${moreKeys}</p>`}
</section>
${
  data.refusals &&
  html`<section class="section" aria-labelledby="refusals-heading">
<h2 id="refusals-heading">Denied recently</h2>
${tableOrLead(data.refusals)}
</section>`
}`;
  return layout({ title: titleText(heading), width: 'table' }, frame, content);
}

/** Renders an empty table as one muted sentence, because nothing is wrong. */
function tableOrLead(listed: Table): Html {
  return listed.rows.length === 0
    ? html`<p class="lead">${listed.empty.text}</p>`
    : dataTable(listed);
}
