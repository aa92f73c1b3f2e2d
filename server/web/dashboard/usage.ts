import {
  callKinds,
  type CallCounts,
  type CallKind,
  type CallSubject,
  hasCountedCalls,
  findSubjectNames,
} from '#db/rollups';
import { notFound } from '#admin/refusal';
import { csvCell } from '#audit/export-audit';
import type { Clock, EpochSeconds } from '#clock/clock';
import { findOrganization } from '#db/organizations';
import type { Db } from '#db/transaction';
import {
  errorsIn,
  isUsageRange,
  rangeAt,
  readUsage,
  usageRanges,
  type UsageRange,
  type UsageReading,
  type UsageSum,
} from '#usage/read-usage';
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
import {
  callWords,
  msWords,
  type PlottedUsage,
  shareWords,
  usageNumbers,
  usagePlots,
} from '#web/plots';
import { dataTable, type Table } from '#web/tables';
import type { DashboardGuard, DashboardRequest } from './guard.ts';
import { type ChangeStore, queryCache } from './live.ts';
import { sendDashboardPage } from './page.ts';

export interface UsageRoutesPorts {
  readonly db: Db;
  readonly changes: Pick<ChangeStore, 'changeToken'>;
  readonly clock: Clock;
}

const needs = { permission: 'usage.read', section: 'usage' } as const;

/** `/usage` and `/usage.csv`: calls, errors and latencies of an organization, and of each subject in it. */
export function usageRoutes(guard: DashboardGuard, { ports }: { ports: UsageRoutesPorts }): void {
  const { clock } = ports;
  const cached = queryCache(ports.changes);

  const read = async (organization: string, shown: UsagePageQuery) => {
    const found = await findOrganization(ports.db, organization);
    if (!found) throw notFound('organization');
    const { kind, subject } = shown;
    // An id typed into the URL must not reveal the name of a subject in another organization.
    if (
      subject &&
      !(await hasCountedCalls(ports.db, found.id, { kind, ...subject }, clock.now()))
    ) {
      throw notFound('usage');
    }
    const reading = await readUsage({ ...shown, organizationId: found.id }, clock.now(), ports);
    const nameOf = await namesOf(reading, shown, ports.db);
    const name = shown.subject ? nameOf(shown.subject) : organization;
    return { reading, nameOf, name };
  };

  const page = async (organization: string, shown: UsagePageQuery) => {
    const { reading, nameOf, name } = await read(organization, shown);
    const here = (but: Partial<UsagePageQuery>) => usagePath(organization, { ...shown, ...but });
    const named = namedUsage(reading, name, nameOf);
    const hasCalls = reading.points.length > 0;
    const { many } = kindWords[shown.kind];
    return {
      name,
      heading: shown.subject ? name : 'Usage',
      lead: leadOf(reading),
      ranges: rangesInOrder.map((range) => ({
        text: rangeWords[range],
        href: here({ range }),
        isHere: range === shown.range,
      })),
      kinds: callKinds.map((kind) => ({
        text: kindWords[kind].many,
        href: here({ kind }),
        isHere: kind === shown.kind,
      })),
      back: shown.subject && { text: `All ${many}`, href: here({ subject: undefined }) },
      plots: hasCalls ? usagePlots(named) : [],
      numbers: usageNumbers(named),
      subjects: shown.subject
        ? undefined
        : usageTable(organization, shown, reading, nameOf, clock.now()),
      csv: usagePath(organization, shown, '/usage.csv'),
    };
  };

  guard.get('/usage', needs, async (visit, request, reply) => {
    const { organization } = visit;
    const shown = readUsagePageQuery(request);
    const { until } = rangeAt(shown.range, clock.now());
    const data = await cached([organization, shown, until], () => page(organization, shown));
    const whole = usagePath(organization, { ...shown, subject: undefined });
    const crumbs = shown.subject
      ? [{ text: 'Usage', href: whole }, { text: `${kindWords[shown.kind].one} ${data.name}` }]
      : [{ text: 'Usage' }];
    return sendDashboardPage(reply, visit, usagePage, data, { crumbs });
  });

  guard.get('/usage.csv', needs, async ({ organization }, request, reply) => {
    const shown = readUsagePageQuery(request);
    const { reading, nameOf, name } = await read(organization, shown);
    const file = `usage-${organization}-${shown.range}-${shown.kind}.csv`;
    return reply
      .headers({
        'Content-Type': 'text/csv; charset=utf-8',
        'Content-Disposition': `attachment; filename="${file}"`,
        'X-Content-Type-Options': 'nosniff',
        'Cache-Control': 'no-store',
      })
      .send(usageCsv(reading, name, nameOf));
  });
}

/** A summary in one sentence. */
function leadOf({ total }: UsageReading): string {
  const { calls, errors, refused, toolErrors, upstreamErrors } = total;
  if (calls === 0) return 'Calls to your servers: how many, how well, how fast.';
  const parts = [
    `${callWords(calls)} ${calls === 1 ? 'call' : 'calls'}`,
    `${shareWords(errors, calls)} in error`,
    ...(errors > 0
      ? [
          `${callWords(toolErrors)} answered with an error, ${callWords(refused)} refused here, ${callWords(upstreamErrors)} not answered`,
        ]
      : []),
  ];
  return `${parts.slice(0, 2).join(', ')}${parts[2] ? `: ${parts[2]}` : ''}.`;
}

/** The selection of a usage page, all of it in the URL. */
interface UsagePageQuery {
  readonly range: UsageRange;
  readonly kind: CallKind;
  readonly subject: CallSubject | undefined;
}

/** Parses the selection; defaults to the last 24 hours by server. */
function readUsagePageQuery(request: DashboardRequest): UsagePageQuery {
  const range = queryText(request, 'range') ?? '';
  const by = queryText(request, 'by');
  const [serverId, subject] = [queryText(request, 'server'), queryText(request, 'of')];
  return {
    range: isUsageRange(range) ? range : '24h',
    kind: callKinds.find((kind) => kind === by) ?? 'server',
    subject: serverId !== undefined && subject !== undefined ? { serverId, subject } : undefined,
  };
}

/** The path of a selection; `path` is `/usage` or `/usage.csv`. */
export function usagePath(
  organization: string,
  { range, kind, subject }: UsagePageQuery,
  path = '/usage',
): string {
  const all = `${dashboardPath(organization)}${path}?range=${range}&by=${kind}`;
  if (!subject) return all;
  return `${all}&server=${queryWord(subject.serverId)}&of=${queryWord(subject.subject)}`;
}

/** Encodes a query value. Most need no encoding, and a page has many. */
function queryWord(text: string): string {
  return /^[\w.-]*$/.test(text) ? text : new URLSearchParams([['', text]]).toString().slice(1);
}

/** The ranges as links read. */
const rangeWords: Readonly<Record<UsageRange, string>> = {
  '1h': 'Hour',
  '24h': 'Day',
  '7d': 'Week',
  '30d': '30 days',
  '90d': '90 days',
};

/** What calls are counted for as links read. */
const kindWords: Readonly<Record<CallKind, { one: string; many: string }>> = {
  server: { one: 'Server', many: 'Servers' },
  client: { one: 'OAuth client', many: 'OAuth clients' },
  key: { one: 'API key', many: 'API keys' },
  tool: { one: 'Tool', many: 'Tools' },
  method: { one: 'Method', many: 'Methods' },
  person: { one: 'Person', many: 'Tried by' },
};

const rangesInOrder = Object.keys(usageRanges).filter(isUsageRange);

interface UsagePageData {
  readonly heading: string;
  readonly lead: string;
  readonly ranges: readonly Tab[];
  readonly kinds: readonly Tab[];
  /** A link from one subject back to all. */
  readonly back: Link | undefined;
  /** Made by `usagePlots`; none without calls. */
  readonly plots: readonly Html[];
  /** Rows of `usageNumbers`, starting with the header. */
  readonly numbers: readonly (readonly string[])[];
  readonly subjects: Table | undefined;
  readonly csv: string;
}

/** How often an organization is called, and with what results. */
function usagePage(data: UsagePageData, frame: Frame): Html {
  const { heading, lead, ranges, kinds, back, plots } = data;
  const content = html`${pageHeading({ heading, lead })}
<div class="choices">
${tabNavigation({ label: 'Time', entries: ranges })}
${back ? html`<a href="${back.href}">${back.text}</a>` : tabNavigation({ label: 'Counted for each', entries: kinds })}
</div>
${
  plots.length === 0
    ? html`<div class="empty">
<p>No calls in this time. Calls appear here within seconds of being made.</p>
</div>`
    : usageDetails(data)
}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

function usageDetails({ plots, subjects, numbers, csv }: UsagePageData): Html {
  const [head = [], ...rows] = numbers;
  return html`<div class="plots">${plots}</div>
${subjects && dataTable(subjects)}
<details>
<summary>The same numbers over time</summary>
<div class="numbers" tabindex="0" role="region" aria-label="Numbers over time">
<table>
<caption class="unseen">Numbers over time</caption>
<thead>
<tr>
${head.map((text) => html`<th scope="col" dir="auto">${text}</th>`)}
</tr>
</thead>
<tbody>
${rows.map(
  ([time, ...values]) =>
    html`<tr>
<th scope="row">${time}</th>
${values.map((value) => html`<td>${value}</td>`)}
</tr>`,
)}
</tbody>
</table>
</div>
</details>
<p><a href="${csv}">Download as CSV</a> <span class="soft">Times are UTC. Latencies are at most a tenth off.</span></p>`;
}

const columns = ['Calls', 'Errors', 'Of them refused', 'p50', 'p90', 'p99'];

/** The busiest subjects, each with a link. */
function usageTable(
  organization: string,
  shown: UsagePageQuery,
  { subjects }: UsageReading,
  nameOf: NameOf,
  now: EpochSeconds,
): Table {
  const { one, many } = kindWords[shown.kind];
  return {
    caption: `${many}, the busiest first`,
    columns: [{ text: one }, ...columns.map((text) => ({ text }))],
    rows: subjects.map(({ serverId, subject, total }, index) => {
      const { calls, errors, refused, p50, p90, p99 } = total;
      const href = usagePath(organization, { ...shown, subject: { serverId, subject } });
      const values = [
        callWords(calls),
        errors === 0 ? '0' : `${callWords(errors)} (${shareWords(errors, calls)})`,
        callWords(refused),
        ...[p50, p90, p99].map(msWords),
      ];
      return {
        id: `subject-${index}`,
        cells: [
          { kind: 'name', text: nameOf({ serverId, subject }), href } as const,
          ...values.map((text) => ({ kind: 'text', text }) as const),
        ],
      };
    }),
    empty: { text: `No calls that are counted for ${many.toLowerCase()} in this time.` },
    now,
  };
}

const head = 'series,from,calls,tool_errors,refused,upstream_errors,p50_ms,p90_ms,p99_ms';

type Numbers = CallCounts & Partial<Pick<UsageSum, 'p50' | 'p90' | 'p99'>>;

/** The numbers as CSV, one row per series and step; latencies only for the total. RFC 4180 */
function usageCsv({ points, lines }: UsageReading, wholeName: string, nameOf: NameOf): string {
  const row = (name: string, at: EpochSeconds, counts: Numbers) => {
    const from = new Date(at * 1000).toISOString().replace('.000', '');
    return [csvCell(name), from, ...csvNumbers(counts)].join(',');
  };
  const rows = [
    ...points.map((point) => row(wholeName, point.at, point)),
    ...lines.flatMap((line) => line.points.map((point) => row(nameOf(line), point.at, point))),
  ];
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
  { lines, subjects }: Pick<UsageReading, 'lines' | 'subjects'>,
  { kind, subject }: Pick<UsagePageQuery, 'kind' | 'subject'>,
  db: Db,
): Promise<NameOf> {
  const all = [...lines, ...subjects, ...(subject ? [subject] : [])];
  const ids = (of: (one: CallSubject) => string) => [...new Set(all.map(of))];
  const own = await findSubjectNames(
    db,
    kind,
    ids((one) => one.subject),
  );
  const servers = await findSubjectNames(
    db,
    'server',
    ids(({ serverId }) => serverId),
  );
  const isOfOne = new Set(all.map(({ serverId }) => serverId)).size === 1;
  return ({ serverId, subject: id }) => {
    const name = displayName(own.get(id) ?? `${id} (gone)`);
    const server = servers.get(serverId) ?? 'a server that is gone';
    return kind === 'server' || (isOfOne && !subject) ? name : `${name} · ${server}`;
  };
}

/** A reading with names, for plots and tables. */
export function namedUsage(
  { total, points, lines, subjects, from, until, stepSeconds }: UsageReading,
  name: string,
  nameOf: NameOf,
): PlottedUsage {
  return {
    from,
    until,
    stepSeconds,
    whole: { name, total, points },
    lines: lines.map((line, place) => ({
      name: nameOf(line),
      total: subjects[place]?.total ?? { calls: 0, errors: 0 },
      points: line.points.map(({ at, ...counts }) => {
        return { at, calls: counts.calls, errors: errorsIn(counts) };
      }),
    })),
  };
}
