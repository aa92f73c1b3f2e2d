import {
  callKinds,
  type CallCounts,
  type CallKind,
  type CallSubject,
  hasCountedCalls,
} from '#db/rollups';
import { findSubjectNames } from '#db/subject-names';
import { notFound } from '#admin/refusal';
import { csvCell } from '#audit/export-audit';
import type { EpochSeconds } from '#model/clock';
import { findOrganization, type Organization } from '#db/organizations';
import { listServers } from '#db/servers';
import type { Db } from '#db/transaction';
import {
  errorsIn,
  isUsageRange,
  rangeAt,
  readBusiestOverTime,
  readUsage,
  usageRanges,
  type UsageQuery,
  type UsageRange,
  type UsageReading,
  type UsageSum,
} from '#usage/read-usage';
import { type Choice, hiddenField, selectOptions } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import {
  dashboardPath,
  type Frame,
  layout,
  type Link,
  pageHeading,
  type Tab,
  tabNavigation,
} from '#web/layout';
import { queryText } from '#web/page-request';
import { callWords, msWords, shareWords, usageNumbers, usagePlots } from '#web/plots';
import { dataTable, type Table } from '#web/tables';
import { isoTime, zoneNote } from '#web/times';
import { titleWithName } from '#web/titles';
import { type ActivityQuery, callsHref } from './calls.ts';
import type { DashboardGuard, DashboardRequest, PageHandler } from './guard.ts';
import { queryCache, type QueryCache } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';

const needs = 'usage.read';

/** `/usage` and `/usage.csv`: calls, errors and latencies of an organization, or of what the filter selects of it. */
export function usageRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  guard.get('/usage', needs, showUsage(queryCache(ports.changes)));
  guard.get('/usage.csv', needs, exportUsage);
}

/** Reads what the filter selects. Ids typed into the URL must not reveal names from another organization. */
async function read(name: string, shown: UsagePageQuery, ports: DashboardPorts) {
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
  const query = { organizationId: organization.id, range: shown.range, of: shown };
  const reading = await readUsage(query, clock.now(), ports);
  return { query, servers, reading, nameOf: await namesOf(reading, shown, servers, db) };
}

async function pageData(organization: string, shown: UsagePageQuery, ports: DashboardPorts) {
  const { query, servers, reading, nameOf } = await read(organization, shown, ports);
  const { kind, subject } = shown;
  const { many } = kindWords[kind];
  const here = (but: Partial<UsagePageQuery>) => usagePath(organization, { ...shown, ...but });
  const credentials = await credentialsOf(query, shown, ports);
  const isEmpty = reading.total.calls === 0;
  const name = subject === undefined ? undefined : nameOf.subject(subject);
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
      : usagePlots(reading, callsHref(organization, reading.stepSeconds, activityQuery(shown))),
    numbers: isEmpty ? undefined : usageNumbers(reading),
    subjects: usageTable(organization, shown, reading, nameOf.of, ports.clock.now()),
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
  const { query, reading, nameOf } = await read(organization, shown, ports);
  const name = shown.subject === undefined ? organization : nameOf.subject(shown.subject);
  const lines =
    shown.subject === undefined
      ? await readBusiestOverTime(query, reading, ports.clock.now(), ports)
      : [];
  const file = `usage-${organization}-${shown.range}-${shown.kind}.csv`;
  return reply
    .headers({
      'Content-Type': 'text/csv; charset=utf-8',
      'Content-Disposition': `attachment; filename="${file}"`,
      'X-Content-Type-Options': 'nosniff',
      'Cache-Control': 'no-store',
    })
    .send(
      usageCsv([
        { name, points: reading.points },
        ...lines.map((line) => ({ name: nameOf.of(line), points: line.points })),
      ]),
    );
};

const mostServers = 200;

/** What the organization's servers are called, by their ids, in the alphabetical order of their names. */
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
  const all = isGone ? [...servers, [serverId, 'Deleted server'] as const] : [...servers];
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

/** What the form keeps of the selection: the kind, and its subject unless the form selects that. */
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

/** The filter of a usage page, all of it in the URL. It selects the calls of the plots, the table and the CSV alike. */
interface UsagePageQuery {
  readonly range: UsageRange;
  readonly kind: CallKind;
  readonly serverId?: string | undefined;
  readonly subject?: string | undefined;
}

/** Parses the filter; defaults to the last 24 hours by server. */
function readUsagePageQuery(request: DashboardRequest): UsagePageQuery {
  const text = (name: string) => queryText(request, name) || undefined;
  const range = text('range') ?? '';
  // The form sends the client or key that was chosen, with its kind in front.
  const [, chosenKind, chosen] = /^(client|key):(.+)$/.exec(text('who') ?? '') ?? [];
  const by = chosenKind ?? text('by');
  return {
    range: isUsageRange(range) ? range : '24h',
    kind: callKinds.find((kind) => kind === by) ?? 'server',
    serverId: text('server'),
    subject: chosen ?? queryText(request, 'of'),
  };
}

/** The same selection on the page Activity, which does not filter by method. */
function activityQuery({ kind, serverId, subject }: UsagePageQuery): ActivityQuery {
  const endpoint = serverId ?? (kind === 'server' ? subject : undefined);
  switch (kind) {
    case 'client':
    case 'key':
      return { endpoint, credential: subject };
    case 'tool':
      return { endpoint, tool: subject };
    case 'person':
      return { endpoint, person: subject };
    case 'server':
    case 'method':
      return { endpoint };
  }
}

/** The path of a filter; `path` is `/usage` or `/usage.csv`. */
export function usagePath(
  organization: string,
  { range, kind, serverId, subject }: UsagePageQuery,
  path = '/usage',
): string {
  const all = `${dashboardPath(organization)}${path}?range=${range}&by=${kind}`;
  const server = serverId === undefined ? '' : `&server=${queryWord(serverId)}`;
  return `${all}${server}${subject === undefined ? '' : `&of=${queryWord(subject)}`}`;
}

/** Encodes a query value. Most need no encoding, and a page has many. */
function queryWord(text: string): string {
  return /^[\w.-]*$/.test(text) ? text : new URLSearchParams([['', text]]).toString().slice(1);
}

const rangeWords: Readonly<Record<UsageRange, string>> = {
  '1h': 'Last hour',
  '24h': 'Last 24 hours',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
};

/** What calls are counted for, and which calls those are. */
const kindWords: Readonly<Record<CallKind, { one: string; many: string; calls: string }>> = {
  server: { one: 'Server', many: 'Servers', calls: 'to your servers' },
  client: { one: 'OAuth client', many: 'OAuth clients', calls: 'by OAuth clients' },
  key: { one: 'API key', many: 'API keys', calls: 'with API keys' },
  tool: { one: 'Tool', many: 'Tools', calls: 'of tools' },
  method: { one: 'Method', many: 'Methods', calls: 'of MCP methods' },
  person: { one: 'Person', many: 'People', calls: 'by people' },
};

/** `API keys`, `servers`: abbreviations keep their capitals. */
function inSentence(name: string): string {
  return /^[A-Z][a-z]/.test(name) ? name.charAt(0).toLowerCase() + name.slice(1) : name;
}

const rangesInOrder = Object.keys(usageRanges).filter(isUsageRange);

interface UsageFilter {
  /** Of the page, without a query. */
  readonly path: string;
  readonly ranges: readonly Choice[];
  readonly servers: readonly Choice[];
  readonly credentials: readonly { readonly label: string; readonly choices: readonly Choice[] }[];
  readonly hidden: Readonly<Record<string, string>>;
}

interface UsagePageData {
  readonly heading: string;
  readonly lead: string;
  readonly filter: UsageFilter;
  readonly kinds: readonly Tab[];
  /** A link from one subject back to all. */
  readonly back: Link | undefined;
  /** Made by `usagePlots`; none without calls. */
  readonly plots: readonly Html[];
  /** Made by `usageNumbers`. */
  readonly numbers: Html | undefined;
  readonly subjects: Table;
  readonly csv: string;
}

/** How often an organization is called, and with what results. */
function usagePage(data: UsagePageData, frame: Frame): Html {
  const { heading, lead, filter, kinds, back, plots, numbers, subjects, csv } = data;
  const content = html`${pageHeading({ heading, lead })}
${usageFilter(filter)}
${back ? html`<p><a href="${back.href}">${back.text}</a></p>` : tabNavigation({ label: 'Group by', entries: kinds })}
${
  plots.length === 0
    ? html`<div class="empty">
<p>No calls match the filter. A new call appears here within seconds.</p>
</div>`
    : html`<div class="plots">${plots}</div>
${numbers}
${dataTable(subjects)}
<p><a href="${csv}">Download as CSV</a> ${zoneNote()} <span class="soft">Response times are approximate (within 10%).</span></p>`
}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

function usageFilter({ path, ranges, servers, credentials, hidden }: UsageFilter): Html {
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

const columns = ['Calls', 'Errors', 'Denied', 'Median', 'p90', 'p99'];

/** The busiest subjects, each with a link, and the sums of the others and of all. */
function usageTable(
  organization: string,
  shown: UsagePageQuery,
  { subjects, others, total }: UsageReading,
  nameOf: NameOf,
  now: EpochSeconds,
): Table {
  const { one, many } = kindWords[shown.kind];
  const row = (id: string, name: { text: string; href?: string }, sum: Numbers) => {
    const errors = errorsIn(sum);
    const values = [
      callWords(sum.calls),
      errors === 0 ? '0' : `${callWords(errors)} (${shareWords(errors, sum.calls)})`,
      callWords(sum.refused),
      ...[sum.p50, sum.p90, sum.p99].map(msWords),
    ];
    const cells = values.map((text) => ({ kind: 'text', text }) as const);
    return { id, cells: [{ kind: 'name', ...name } as const, ...cells] };
  };
  const sums = [
    ...(others.calls > 0 ? [row('others', { text: `Other ${inSentence(many)}` }, others)] : []),
    ...(subjects.length > 1 ? [row('total', { text: 'Total' }, total)] : []),
  ];
  return {
    caption: `${many}, busiest first`,
    columns: [{ text: one }, ...columns.map((text) => ({ text }))],
    rows: [
      ...subjects.map(({ serverId, subject, total: own }, index) => {
        const href = usagePath(organization, { ...shown, serverId, subject });
        return row(`subject-${index}`, { text: nameOf({ serverId, subject }), href }, own);
      }),
      ...sums,
    ],
    empty: { text: 'No calls match the filter.' },
    now,
  };
}

const head = 'series,from,calls,tool_errors,refused,upstream_errors,p50_ms,p90_ms,p99_ms';

type Numbers = CallCounts & Partial<Pick<UsageSum, 'p50' | 'p90' | 'p99'>>;

/** The numbers as CSV, one row per series and step; latencies only for the total. RFC 4180 */
function usageCsv(
  series: readonly {
    readonly name: string;
    readonly points: readonly (Numbers & { readonly at: EpochSeconds })[];
  }[],
): string {
  const rows = series.flatMap(({ name, points }) =>
    points.map((point) => [csvCell(name), isoTime(point.at), ...csvNumbers(point)].join(',')),
  );
  return [head, ...rows, ''].join('\r\n');
}

function csvNumbers({ calls, toolErrors, refused, upstreamErrors, ...rest }: Numbers): string[] {
  const latencies = [rest.p50, rest.p90, rest.p99].map((ms) => ms?.toFixed(1) ?? '');
  return [...[calls, toolErrors, refused, upstreamErrors].map(String), ...latencies];
}

/** Returns the display name of a subject, also of a deleted one. */
type NameOf = (subject: CallSubject) => string;

/** Finds the names of all subjects in a reading, and of the selected one. */
async function namesOf(
  { subjects }: Pick<UsageReading, 'subjects'>,
  { kind, subject: selected, serverId: ofServer }: UsagePageQuery,
  servers: ReadonlyMap<string, string>,
  db: Db,
): Promise<{ readonly of: NameOf; readonly subject: (id: string) => string }> {
  const ids = new Set(subjects.map(({ subject }) => subject));
  if (selected !== undefined) ids.add(selected);
  const names = await findSubjectNames(db, kind, [...ids]);
  const subject = (id: string) => {
    const server = kind === 'server' ? servers.get(id) : undefined;
    return server ?? displayName(names.get(id) ?? `Deleted (${id})`);
  };
  const isOfOne =
    ofServer !== undefined || new Set(subjects.map(({ serverId }) => serverId)).size === 1;
  return {
    subject,
    of({ serverId, subject: id }) {
      if (kind === 'server' || isOfOne) return subject(id);
      return `${subject(id)} · ${servers.get(serverId) ?? 'deleted server'}`;
    },
  };
}
