import { randomUUID } from 'node:crypto';
import { exportCalls } from '#activity/export-calls';
import { accountWords, endWords } from '#activity/call-words';
import { callExport, callsAt, ownCallsOnly, selectedPerson } from '#admin/calls';
import { callIdAt, writtenAtMs } from '#db/calls';
import { type CallFilter, type CallSearch, type FoundCalls, watermarkAt } from '#db/find-calls';
import { listServers } from '#db/servers';
import { findOrganization } from '#db/organizations';
import { callEnds, upstreamAccounts } from '#model/calls';
import { type Choice, hiddenField, selectOptions } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import { type Frame, layout, pageHeading } from '#web/layout';
import { queryText } from '#web/page-request';
import { dataTable, type Table } from '#web/tables';
import { localTime, zoneNote } from '#web/times';
import { titleWithName } from '#web/titles';
import { chipsOf, deviceOf, isMoment, isPersonId, momentOf } from './activity-chips.ts';
import {
  activityPath,
  type ActivityQuery,
  callsFor,
  callTable,
  daySeconds,
  type ShowValue,
  usualDays,
} from './calls.ts';
import { showCall, showContents } from './call.ts';
import { unknownPerson } from './empty-filters.ts';
import {
  type DashboardGuard,
  type DashboardRequest,
  type DashboardVisit,
  membershipOf,
  type PageHandler,
} from './guard.ts';
import { renewedPart } from './lists.ts';
import { type LiveStreams, sendLiveStream } from './live.ts';
import { missingNotice } from './missing-calls.ts';
import { exportLinks, sendDashboardPage, sendExport } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { leaverQuestion } from './pseudonym-question.ts';
import { questionRoutes } from './questions.ts';

/** Everyone sees their own calls; `callsFor` shows the calls of others only to people who may read them. */
const needs = 'organization.read';
const rowsAPage = 50;
/** A search that takes longer shows how far back it got, and goes on page by page. */
const searchBudgetMs = 500;

/** `/activity`: the calls to an organization's servers, newest first, and the page of each. */
export function activityRoutes(guard: DashboardGuard): void {
  guard.get('/activity', needs, showActivity);
  guard.get('/activity/export', needs, exportActivity);
  guard.get('/activity/:callId', needs, showCall);
  guard.post('/activity/:callId', needs, showContents);
  questionRoutes(guard, '/activity/:callId/pseudonymize', 'owners.manage', leaverQuestion);
}

/**
 * `/activity/live`: the stream that announces calls to the newest page of Activity. `newer` is when that page was made. Calls that the
 * filter does not select are not announced, so that they do not refresh the page.
 */
export function liveCallRoutes(guard: DashboardGuard, streams: LiveStreams): void {
  guard.get('/activity/live', needs, async (visit, request, reply, { ports }) => {
    const { person, organization, role } = visit;
    const { filter } = await selectionOf(visit, request, ports);
    const isAllowed = async () => {
      const membership = await membershipOf(person, organization, ports);
      return membership !== undefined && !membership.missing && membership.role === role;
    };
    const since = cursorOf(request)?.id ?? callIdAt(watermarkAt(ports.clock.now()));
    const topic = {
      name: randomUUID(),
      readState: newCalls(visit, filter, since, ports),
      isAllowed,
      isTimed: true,
    };
    return sendLiveStream(reply, person, topic, { ports, streams });
  });
}

const newCallsBudgetMs = 100;

/** Returns a function whose result changes whenever there are new calls. */
function newCalls(
  visit: DashboardVisit,
  filter: CallFilter,
  since: string,
  ports: Pick<DashboardPorts, 'db' | 'clock'>,
): () => Promise<string> {
  let seen = since;
  let state: string | undefined;
  return async () => {
    // A stream announces what differs from its first state.
    if (state === undefined) return (state = seen);
    const settled = callIdAt(watermarkAt(ports.clock.now()));
    if (settled <= seen) return state;
    const from = { id: seen, side: 'newer' } as const;
    const search = { filter, from, limit: 1, budgetMs: newCallsBudgetMs };
    const { calls, stoppedAt } = await callsFor(visit, search, ports);
    const [call] = calls;
    seen = call ? settled : (stoppedAt ?? settled);
    if (call) state = call.id;
    return state;
  };
}

const names = [
  'from',
  'until',
  'person',
  'application',
  'versions',
  'device',
  'credential',
  'endpoint',
  'server',
  'tool',
  'outcome',
  'account',
  'error',
] as const;

/** The parameters of the filter as they are in the URL, cut to a useful length. */
function typedQuery(request: DashboardRequest): ActivityQuery {
  const entries = names.flatMap((name) => {
    const text = queryText(request, name)?.trim().slice(0, 500);
    return text ? [[name, text] as const] : [];
  });
  return Object.fromEntries(entries);
}

/** The filter of a URL, with a person's address resolved. Without `from`, it begins seven days before its end. */
async function filterOf(
  query: ActivityQuery,
  { db, clock }: Pick<DashboardPorts, 'db' | 'clock'>,
): Promise<CallFilter> {
  const { outcome, tool } = query;
  const untilMs = momentOf(query.until, true);
  const endMs = untilMs ?? clock.now() * 1000;
  return {
    ...(await selectedPerson(query.person, db)),
    device: query.device,
    credential: query.credential,
    application: query.application,
    hasAnyVersion: query.versions === 'all',
    ...(await callsAt({ endpoint: query.endpoint, tool }, db)),
    ...(query.server !== undefined && { target: query.server }),
    error: query.error,
    account: upstreamAccounts.find((account) => account === query.account),
    end: outcome === 'failed' ? 'failed' : callEnds.find((end) => end === outcome),
    fromMs: momentOf(query.from, false) ?? endMs - usualDays * daySeconds * 1000,
    untilMs,
  };
}

/** The position in the list at which a page begins. */
function cursorOf(request: DashboardRequest): CallSearch['from'] {
  for (const side of ['older', 'newer'] as const) {
    const id = queryText(request, side);
    if (id !== undefined && /^[\da-f]{12,24}$/.test(id)) return { id, side };
  }
  return undefined;
}

/** The filter in the URL. It names no person for a reader who sees only their own calls. */
async function selectionOf(
  visit: DashboardVisit,
  request: DashboardRequest,
  ports: Pick<DashboardPorts, 'db' | 'clock'>,
) {
  const isOwn = ownCallsOnly(visit) !== undefined;
  const typed = typedQuery(request);
  const query = isOwn ? { ...typed, person: undefined } : typed;
  return { isOwn, query, filter: await filterOf(query, ports) };
}

const showActivity: PageHandler = async (visit, request, reply, { ports }) => {
  const data = await activityData(visit, request, ports);
  const at = { crumbs: [{ text: data.heading }], live: data.live };
  return sendDashboardPage(reply, visit, activityPage, data, at);
};

async function activityData(
  visit: DashboardVisit,
  request: DashboardRequest,
  ports: DashboardPorts,
) {
  const { organization } = visit;
  const { isOwn, query, filter } = await selectionOf(visit, request, ports);
  const from = cursorOf(request);
  const madeAt = callIdAt(watermarkAt(ports.clock.now()));
  const search = { filter, limit: rowsAPage, budgetMs: searchBudgetMs, ...(from && { from }) };
  const found = await callsFor(visit, search, ports);
  const isPartial = found.stoppedAt !== undefined;
  const isFiltered = names.some((name) => query[name] !== undefined);
  const show: ShowValue = (text, value) =>
    isOwn && value.person !== undefined && value.device === undefined
      ? html`<strong>You</strong>`
      : html`<a class="value" href="${activityPath(organization, { ...query, ...value })}" dir="auto">${text}</a>`;
  const empty =
    found.calls.length === 0
      ? await emptyWords(visit, query, { isPartial, isFiltered }, ports)
      : '';
  const heading = isOwn ? 'Your activity' : 'Activity';
  // New calls appear by themselves on the newest page.
  const isLive = from === undefined && query.until === undefined && !isPartial;
  return {
    heading,
    lead: isOwn
      ? 'What applications did for you here, newest first. Administrators of the organization see these calls, too.'
      : 'Who called which tool, and what came of it. Select a value to filter by it.',
    path: activityPath(organization),
    here: activityPath(organization, query),
    live: isLive ? activityPath(organization, { ...query, newer: madeAt }, '/live') : undefined,
    query,
    filter,
    isOwn,
    servers: await serverChoices(organization, query, ports),
    chips: chipsOf(organization, query, found.calls, await deviceOf(found.calls, ports)),
    missing: await missingNotice(visit, filter, ports),
    table: await callTable(visit, found.calls, { caption: heading, empty, show }, ports),
    ...pagesOf(organization, query, found, from),
    exports:
      found.calls.length === 0 && !isPartial
        ? []
        : exportLinks((format) => activityPath(organization, { ...query, format }, '/export')),
    isFiltered,
  };
}

/** Says why there are no calls, and how to find some. */
async function emptyWords(
  { organization }: DashboardVisit,
  query: ActivityQuery,
  { isPartial, isFiltered }: { readonly isPartial: boolean; readonly isFiltered: boolean },
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<Table['empty']> {
  const { person } = query;
  const unknown =
    person === undefined || isPersonId(person)
      ? undefined
      : await unknownPerson(person, organization, { former }, db);
  if (unknown) {
    const { text, meant } = unknown;
    const none = isPartial ? 'No calls found yet.' : 'No calls match.';
    const href = meant && activityPath(organization, { ...query, person: meant });
    const action = href && { text: `Show the calls of ${displayName(meant, 60)}`, href };
    return { text: `${none} ${text}`, ...(action && { action }) };
  }
  if (isPartial) return { text: 'No calls found yet.' };
  if (isFiltered) return { text: noneFound(query) };
  const text = `No calls in the last ${usualDays} days. A call appears here a few seconds after it ends.`;
  return { text };
}

const former =
  'Calls of someone who left are found by the address, unless a pseudonym replaced it.';

/** Says why a filter may select nothing, and how to find more. */
function noneFound({ tool, from, until }: ActivityQuery): string {
  if (tool !== undefined && !tool.includes('*')) {
    const name = displayName(tool, 60);
    return `No calls match. The filter is the whole name: ${name}* also finds names that begin with ${name}. Or choose an earlier day under “From”.`;
  }
  // The bars and numbers of Usage link to exact moments.
  if (tool === undefined && (isMoment(from) || isMoment(until))) {
    return 'No recorded calls. Usage also counts lists and other requests, which Activity records only if the server runs with --call-log-lists.';
  }
  return 'No calls match. Choose an earlier day under “From”, or remove a filter.';
}

/** Sends everything that the filter of the URL selects, not only one page of it. */
const exportActivity: PageHandler = async (visit, request, reply, { ports }) => {
  const format = queryText(request, 'format') === 'csv' ? 'csv' : 'jsonl';
  const file = { name: `activity-${visit.organization}`, format, now: ports.clock.now() } as const;
  // Nothing is exported, so the audit log gets no entry.
  if (request.method === 'HEAD') return sendExport(reply, file);
  const { filter } = await selectionOf(visit, request, ports);
  const { query } = await visit.perform(callExport, { format });
  const { person = filter.person } = query.filter;
  const selected = { ...query, filter: { ...filter, person } };
  return sendExport(reply, {
    ...file,
    pieces: (signal) => exportCalls(selected, format, ports.db, { signal }),
  });
};

/** The servers of the organization, and the one that is chosen. */
async function serverChoices(
  name: string,
  { endpoint }: ActivityQuery,
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<readonly Choice[]> {
  const organization = await findOrganization(db, name);
  const page = { sort: 'name', descending: false, limit: 200, offset: 0 } as const;
  const { items } = organization
    ? await listServers(db, { organizationId: organization.id, text: undefined, ...page })
    : { items: [] };
  const isGone = endpoint !== undefined && !items.some(({ id }) => id === endpoint);
  return [
    { value: '', text: 'All servers', isChosen: endpoint === undefined },
    ...items.map((server) => {
      const { id: value } = server;
      return { value, text: titleWithName(server), isChosen: value === endpoint };
    }),
    ...(isGone ? [{ value: endpoint, text: 'Deleted or unknown server', isChosen: true }] : []),
  ];
}

/** Links to the newer and older page and, if the search was stopped, how far it got. */
function pagesOf(
  organization: string,
  query: ActivityQuery,
  { calls, hasMore, stoppedAt }: FoundCalls,
  from: CallSearch['from'],
) {
  const isUp = from?.side === 'newer';
  const [first, last] = [calls.at(0)?.id, calls.at(-1)?.id];
  const to = (side: 'older' | 'newer', id: string | undefined) =>
    id === undefined ? undefined : activityPath(organization, { ...query, [side]: id });
  const older = isUp ? (last ?? from.id) : hasMore && stoppedAt === undefined ? last : undefined;
  const newer = isUp
    ? (stoppedAt ?? first ?? from.id)
    : from === undefined
      ? undefined
      : (first ?? from.id);
  return {
    newest: from === undefined ? undefined : activityPath(organization, query),
    older: to('older', older),
    newer: to('newer', newer),
    searched:
      stoppedAt === undefined
        ? undefined
        : {
            at: Math.floor(writtenAtMs(stoppedAt) / 1000),
            href: to(isUp ? 'newer' : 'older', stoppedAt),
            isUp,
          },
  };
}

type ActivityPageData = Awaited<ReturnType<typeof activityData>>;

/** The calls to an organization's servers, with a filter. */
function activityPage(data: ActivityPageData, frame: Frame): Html {
  const { heading, lead, chips, searched, older, newer, newest } = data;
  const list = html`<div id="found" class="group">
${dataTable(data.table)}
${searched && searchNotice(searched)}
<nav class="pager" aria-label="Pages and export">
${newest && html`<a class="button" href="${newest}">Newest</a>`}
${newer && html`<a class="button" rel="prev" href="${newer}">Newer</a>`}
${older && html`<a class="button" rel="next" href="${older}">Older</a>`}
${data.exports.map(({ text, href }) => html`<a class="button" href="${href}">${text}</a>`)}
${zoneNote()}
</nav>
</div>`;
  const content = html`${pageHeading({ heading, lead })}
${activityFilter(data)}
${
  chips.length > 0 &&
  html`<ul class="chips" aria-label="Active filters">
${chips.map(
  ({ label, value, href }) =>
    html`<li><span class="soft">${label}</span> <strong dir="auto">${typeof value === 'string' ? displayName(value, 60) : value}</strong> <a href="${href}" aria-label="Remove the filter ${label}">Remove</a></li>`,
)}
</ul>`
}
${data.missing}
${data.live && html`<p class="help" data-live-state role="status">Reload the page to see newer calls.</p>`}
${data.live ? renewedPart(data.here, list) : list}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

/** How far a long search got. If it searches older calls, our script continues it until the page is full or *Stop* is pressed. */
function searchNotice({ at, href, isUp }: NonNullable<ActivityPageData['searched']>): Html {
  return isUp
    ? html`<p class="notice" role="status">Searched up to ${localTime('moment', at)}. <a href="${href}">Search further</a></p>`
    : html`<p class="notice" role="status" data-search="${rowsAPage}">Searched back to ${localTime('moment', at)}. <a href="${href}">Search further back</a> <button type="button" class="quiet" data-stop hidden>Stop</button></p>`;
}

function activityFilter({
  path,
  query,
  filter,
  isOwn,
  servers,
  isFiltered,
}: ActivityPageData): Html {
  const { person, outcome = '', account = '' } = query;
  const isById = person !== undefined && isPersonId(person);
  const hidden = ['application', 'versions', 'device', 'credential', 'server', 'error'] as const;
  const hasMoment = isMoment(query.from) || isMoment(query.until);
  const from = query.from ?? new Date(filter.fromMs ?? 0).toISOString().slice(0, 10);
  const outcomes = [
    { value: '', text: 'Any outcome', isChosen: outcome === '' },
    { value: 'failed', text: 'Failed or refused', isChosen: outcome === 'failed' },
    ...callEnds.map((end) => ({ value: end, text: endWords[end], isChosen: outcome === end })),
  ];
  const accounts = [
    { value: '', text: 'Any upstream credentials', isChosen: account === '' },
    ...upstreamAccounts
      // Rare, so it is offered only while it is selected.
      .filter((one) => one !== 'oauth_account' || one === account)
      .map((one) => ({ value: one, text: accountWords[one], isChosen: account === one })),
  ];
  return html`<form class="filter many" method="get" action="${path}" role="search">
${hidden.map((name) => query[name] !== undefined && hiddenField(name, query[name]))}
${isById && hiddenField('person', person)}
${hasMoment && html`${query.from && hiddenField('from', query.from)}${query.until && hiddenField('until', query.until)}`}
${
  !isOwn &&
  !isById &&
  html`<label class="unseen" for="person">E-mail address</label>
<input id="person" name="person" value="${person}" placeholder="E-mail address" autocomplete="off">`
}
<label class="unseen" for="tool">Tool, prompt or resource</label>
<input id="tool" name="tool" value="${query.tool}" placeholder="Tool, such as refund*" dir="auto" autocomplete="off">
<label class="unseen" for="endpoint">Server</label>
<select id="endpoint" name="endpoint">
${selectOptions(servers)}
</select>
<label class="unseen" for="outcome">Outcome</label>
<select id="outcome" name="outcome">
${selectOptions(outcomes)}
</select>
<label class="unseen" for="account">Sent to the upstream with</label>
<select id="account" name="account">
${selectOptions(accounts)}
</select>
<div class="days">${!hasMoment && html`<label class="day" for="from">From <input id="from" name="from" type="date" value="${from}"></label> <label class="day" for="until">To <input id="until" name="until" type="date" value="${query.until}"></label>`} <button>Apply</button>${isFiltered && html` <a href="${path}">Clear</a>`}</div>
</form>`;
}
