import { callKinds, type CallKind, type CallSubject } from '#model/call-counts';
import { type CallFilter, hasCountedCalls } from '#db/rollups';
import { findSubjectNames } from '#db/subject-names';
import { notFound } from '#admin/refusal';
import { findOrganization, type Organization } from '#db/organizations';
import { listServers } from '#db/servers';
import type { Db } from '#db/transaction';
import {
  rangeAt,
  readBusiestOverTime,
  readUsage,
  type UsageQuery,
  type UsageReading,
} from '#usage/read-usage';
import { type Choice, hiddenField, selectOptions } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import { dashboardPath, type Frame, layout, pageHeading, tabNavigation } from '#web/layout';
import { callPlots, callWords, shareWords, usageNumbers, usagePlots } from '#web/plots';
import { dataTable } from '#web/tables';
import { zoneNote } from '#web/times';
import { titleWithName } from '#web/titles';
import { callsHref, unrecordedNote } from './calls.ts';
import type { DashboardGuard, PageHandler } from './guard.ts';
import { queryCache, type QueryCache } from './live.ts';
import { fileHeaders, sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import {
  activityQuery,
  inSentence,
  kindWords,
  rangesInOrder,
  rangeWords,
  readUsagePageQuery,
  type UsagePageQuery,
  usagePath,
} from './usage-query.ts';
import { callersCsv, namesOf, usageCsv, usageTable } from './usage-table.ts';

const needs = 'usage.read';

/** `/usage` and `/usage.csv`: calls, errors and latencies of an organization, or of the part that the filter selects. */
export function usageRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  guard.get('/usage', needs, showUsage(queryCache(ports.changes)));
  guard.get('/usage.csv', needs, exportUsage);
}

/** Reads the usage that the filter selects. Ids typed into the URL must not reveal names from another organization. */
async function read(name: string, shown: UsagePageQuery, ports: DashboardPorts, limit?: number) {
  const { db, clock } = ports;
  const organization = await findOrganization(db, name);
  if (!organization) throw notFound('organization');
  const servers = await serversOf(organization, db);
  const { kind, serverId, subject } = shown;
  const isCounted = (of: Partial<CallSubject>, by = kind) =>
    hasCountedCalls(db, organization.id, { kind: by, ...of }, clock.now());
  if (
    serverId !== undefined &&
    !servers.has(serverId) &&
    !(await isCounted({ serverId }, 'server'))
  ) {
    throw notFound('usage');
  }
  if (subject !== undefined && !(await isCounted({ subject }))) throw notFound('usage');
  const query = { organizationId: organization.id, range: shown.range, of: shown, limit };
  const reading = await readUsage(query, clock.now(), ports);
  return { query, servers, reading, names: await namesOf(reading, shown, servers, db) };
}

/** The callers and their tools, for the page of one subject; `undefined` for a kind about which they tell nothing more. */
async function readCallers(
  { query, servers }: Pick<Awaited<ReturnType<typeof read>>, 'query' | 'servers'>,
  { kind, subject, range, serverId }: UsagePageQuery,
  ports: DashboardPorts,
) {
  if (subject === undefined) return undefined;
  const of: Partial<Record<CallKind, Partial<CallFilter>>> = {
    person: { caller: { type: 'person', id: subject } },
    client: { caller: { type: 'client', id: subject } },
    key: { caller: { type: 'key', id: subject } },
    tool: { tool: subject },
    server: { serverId: subject },
  };
  const these = of[kind];
  if (!these) return undefined;
  const filter = { serverId, ...these, kind: 'caller' as const };
  const reading = await readUsage({ ...query, of: filter }, ports.clock.now(), ports);
  const shown = { range, kind: filter.kind, serverId: filter.serverId };
  return { reading, shown, names: await namesOf(reading, shown, servers, ports.db) };
}

async function pageData(organization: string, shown: UsagePageQuery, ports: DashboardPorts) {
  const { query, servers, reading, names } = await read(organization, shown, ports);
  const callers = await readCallers({ query, servers }, shown, ports);
  const now = ports.clock.now();
  const { kind, subject } = shown;
  const { many } = kindWords[kind];
  const here = (but: Partial<UsagePageQuery>) => usagePath(organization, { ...shown, ...but });
  const credentials = await credentialsOf(query, shown, ports);
  const isEmpty = reading.total.calls === 0;
  const name = subject === undefined ? undefined : names.subject(subject);
  const hrefs = callsHref(organization, reading.stepSeconds, activityQuery(shown));
  return {
    name,
    heading: name ?? 'Usage',
    lead: leadOf(reading, shown),
    filter: {
      path: `${dashboardPath(organization)}/usage`,
      ranges: rangesInOrder.map((range) => {
        return { value: range, text: rangeWords[range], isChosen: range === shown.range };
      }),
      servers: serverChoices(servers, shown),
      credentials,
      hidden: hiddenFields(shown),
    },
    kinds: callKinds.map((one) => ({
      text: kindWords[one].many,
      href: here({ kind: one }),
      isHere: one === kind,
    })),
    back:
      subject === undefined
        ? undefined
        : { text: `All ${inSentence(many)}`, href: here({ subject: undefined }) },
    plots: isEmpty
      ? []
      : // Response times are not counted for callers with their tools.
        (kind === 'caller' ? callPlots : usagePlots)(reading, hrefs),
    isTimed: reading.total.p50 !== undefined,
    // For tools, all calls that are counted are also recorded.
    countsMore: kind !== 'tool' && kind !== 'caller',
    numbers: isEmpty ? undefined : usageNumbers(reading, hrefs),
    subjects: usageTable(reading, { organization, shown, names, now }),
    callers:
      callers && callers.reading.total.calls > 0
        ? usageTable(callers.reading, { organization, ...callers, now })
        : undefined,
    csv: usagePath(organization, shown, '/usage.csv'),
  };
}

const showUsage =
  (cached: QueryCache): PageHandler =>
  async (visit, request, reply, { ports }) => {
    const { organization } = visit;
    const shown = readUsagePageQuery(request);
    const { until } = rangeAt(shown.range, ports.clock.now());
    const data = await cached([organization, shown, until], () =>
      pageData(organization, shown, ports),
    );
    const whole = usagePath(organization, { ...shown, subject: undefined });
    const crumbs =
      data.name === undefined
        ? [{ text: 'Usage' }]
        : [{ text: 'Usage', href: whole }, { text: `${kindWords[shown.kind].one} ${data.name}` }];
    return sendDashboardPage(reply, visit, usagePage, data, { crumbs });
  };

const exportUsage: PageHandler = async ({ organization }, request, reply, { ports }) => {
  const shown = readUsagePageQuery(request);
  const limit = shown.kind === 'caller' ? mostCsvRows : undefined;
  const { query, servers, reading, names } = await read(organization, shown, ports, limit);
  const name = shown.subject === undefined ? organization : names.subject(shown.subject);
  const lines =
    shown.subject === undefined && shown.kind !== 'caller'
      ? await readBusiestOverTime(query, reading, ports.clock.now(), ports)
      : [];
  const file = `usage-${organization}-${shown.range}-${shown.kind}.csv`;
  return reply
    .headers(fileHeaders(file, 'text/csv'))
    .send(
      shown.kind === 'caller' && shown.subject === undefined
        ? callersCsv(reading, names, servers)
        : usageCsv([
            { name, points: reading.points },
            ...lines.map((line) => ({ name: names.of(line), points: line.points })),
          ]),
    );
};

const mostCsvRows = 10_000;

const mostServers = 200;

/** The titles and names of the organization's servers by id, in the alphabetical order of their names. */
async function serversOf({ id }: Organization, db: Db): Promise<ReadonlyMap<string, string>> {
  const page = { sort: 'name', descending: false, limit: mostServers, offset: 0 } as const;
  const { items } = await listServers(db, { organizationId: id, text: undefined, ...page });
  return new Map(items.map((server) => [server.id, titleWithName(server)]));
}

function serverChoices(
  servers: ReadonlyMap<string, string>,
  { serverId }: UsagePageQuery,
): readonly Choice[] {
  const isGone = serverId !== undefined && !servers.has(serverId);
  const all = isGone
    ? [...servers, [serverId, 'Deleted or unknown server'] as const]
    : [...servers];
  return [
    { value: '', text: 'All servers', isChosen: serverId === undefined },
    ...all.map(([value, text]) => ({ value, text, isChosen: value === serverId })),
  ];
}

/** The OAuth clients and API keys with calls in the range, and the selected one. */
async function credentialsOf(
  query: UsageQuery,
  { kind, subject }: UsagePageQuery,
  ports: DashboardPorts,
): Promise<readonly { readonly label: string; readonly choices: readonly Choice[] }[]> {
  const groups = [];
  for (const one of ['client', 'key'] as const) {
    const of = { kind: one, serverId: query.of.serverId };
    const { subjects } = await readUsage({ ...query, of }, ports.clock.now(), ports);
    const chosen = kind === one ? subject : undefined;
    const ids = new Set(subjects.map((each) => each.subject));
    if (chosen !== undefined) ids.add(chosen);
    if (ids.size === 0) continue;
    const names = await findSubjectNames(ports.db, one, [...ids]);
    const choices = [...ids].map((id) => ({
      value: `${one}:${id}`,
      text: displayName(names.get(id) ?? `Deleted (${id})`),
      isChosen: id === chosen,
    }));
    groups.push({ label: kindWords[one].many, choices });
  }
  return groups;
}

/** The part of the selection that the form keeps: the kind and, unless the form itself selects it, the subject. */
function hiddenFields({ kind, subject }: UsagePageQuery): Readonly<Record<string, string>> {
  const isInForm = kind === 'client' || kind === 'key';
  return { by: kind, ...(subject !== undefined && !isInForm && { of: subject }) };
}

/** A summary in one sentence. */
function leadOf({ total }: UsageReading, { kind, subject }: UsagePageQuery): string {
  const { calls, errors, refused, toolErrors, upstreamErrors } = total;
  const counted = subject === undefined ? ` ${kindWords[kind].calls}` : '';
  if (calls === 0) return `No calls${counted} in this period.`;
  const some = `${callWords(calls)} ${calls === 1 ? 'call' : 'calls'}${counted}`;
  if (errors === 0) return `${some}, no errors.`;
  return `${some}, ${shareWords(errors, calls)} errors: ${callWords(toolErrors)} answered with an error, ${callWords(refused)} denied, ${callWords(upstreamErrors)} not answered.`;
}

type UsagePageData = Awaited<ReturnType<typeof pageData>>;

/** How often an organization is called, and with what results. */
function usagePage(data: UsagePageData, frame: Frame): Html {
  const { heading, lead, filter, kinds, back, plots, numbers, subjects, callers, csv } = data;
  const content = html`${pageHeading({ heading, lead })}
${usageFilter(filter)}
${back ? html`<p><a href="${back.href}">${back.text}</a></p>` : tabNavigation({ label: 'Group by', entries: kinds })}
${
  plots.length === 0
    ? html`<div class="empty">
<p>No calls match the filter. A new call appears here within seconds.</p>
</div>`
    : html`<div class="plots">${plots}</div>
${data.countsMore && unrecordedNote()}
${numbers}
${dataTable(subjects)}
${
  callers &&
  html`<section class="section" aria-labelledby="callers-heading">
<h2 id="callers-heading">Who used which tool</h2>
${dataTable(callers)}
</section>`
}
<p><a href="${csv}">Download as CSV</a> ${zoneNote()}${data.isTimed && html` <span class="soft">Response times are approximate (within 10%).</span>`}</p>`
}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

function usageFilter({
  path,
  ranges,
  servers,
  credentials,
  hidden,
}: UsagePageData['filter']): Html {
  const isAll = !credentials.some(({ choices }) => choices.some(({ isChosen }) => isChosen));
  return html`<form class="filter" method="get" action="${path}" role="search">
${Object.entries(hidden).map(([name, value]) => hiddenField(name, value))}
<label class="unseen" for="range">Time</label>
<select id="range" name="range">
${selectOptions(ranges)}
</select>
<label class="unseen" for="server">Server</label>
<select id="server" name="server">
${selectOptions(servers)}
</select>
<label class="unseen" for="who">Client or key</label>
<select id="who" name="who">
${selectOptions([{ value: '', text: 'All clients and keys', isChosen: isAll }])}
${credentials.map(({ label, choices }) => html`<optgroup label="${label}">${selectOptions(choices)}</optgroup>`)}
</select>
<button>Apply</button>
</form>`;
}
