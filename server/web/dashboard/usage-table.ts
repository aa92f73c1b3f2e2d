import { csvCell } from '#audit/export-audit';
import { type CallCounts, type CallSubject, readCallerSubject } from '#model/call-counts';
import { findCallerNames, findSubjectNames } from '#db/subject-names';
import type { Db } from '#db/transaction';
import type { EpochSeconds } from '#model/clock';
import { otherNames } from '#usage/call-meter';
import { errorsIn, type UsageReading, type UsageSum } from '#usage/read-usage';
import { displayName } from '#web/html';
import { callWords, msWords, shareWords } from '#web/plots';
import type { Table } from '#web/tables';
import { isoTime } from '#web/times';
import { activityPath, type ActivityQuery } from './calls.ts';
import {
  activityQuery,
  inSentence,
  kindWords,
  type UsagePageQuery,
  usagePath,
} from './usage-query.ts';

type Numbers = CallCounts & Partial<Pick<UsageSum, 'p50' | 'p90' | 'p99'>>;

interface UsageTable {
  readonly organization: string;
  readonly shown: UsagePageQuery;
  readonly names: UsageNames;
  readonly now: EpochSeconds;
}

/** The busiest subjects, each with links to its page and to its calls, and the sums of the others and of all. */
export function usageTable(
  { subjects, others, total, from }: UsageReading,
  { organization, shown, names, now }: UsageTable,
): Table {
  const { kind } = shown;
  const { one, many } = kindWords[kind];
  const isOfTools = kind === 'caller';
  const isTimed = total.p50 !== undefined;
  const row = (
    id: string,
    { text, href, tool }: { text: string; href?: string; tool?: string },
    { sum, calls }: { sum: Numbers; calls?: ActivityQuery | undefined },
  ) => {
    const errors = errorsIn(sum);
    const counted = [
      { text: callWords(sum.calls), count: sum.calls, of: 'calls' },
      {
        text: errors === 0 ? '0' : `${callWords(errors)} (${shareWords(errors, sum.calls)})`,
        count: errors,
        of: 'failed calls',
        outcome: 'failed',
      },
      { text: callWords(sum.refused), count: sum.refused, of: 'denied calls', outcome: 'refused' },
    ];
    const label = tool === undefined ? text : `${text}, ${tool}`;
    const numbers = counted.map(({ text: number, count, of, outcome }) => {
      const to = activityPath(organization, { ...calls, outcome, from: isoTime(from) });
      const isLinked = calls && count > 0;
      const link = isLinked ? { href: to, label: `${number} ${of}: ${label}` } : undefined;
      return { kind: 'text', text: number, link } as const;
    });
    const latencies = isTimed ? [sum.p50, sum.p90, sum.p99].map(msWords) : [];
    return {
      id,
      cells: [
        { kind: 'name', text, ...(href !== undefined && { href }) } as const,
        ...(isOfTools ? [{ kind: 'text', text: tool ?? '' } as const] : []),
        ...numbers,
        ...latencies.map((ms) => ({ kind: 'text', text: ms }) as const),
      ],
    };
  };
  const sums = [
    ...(others.calls > 0
      ? [row(`${kind}-others`, { text: `Other ${inSentence(many)}` }, { sum: others })]
      : []),
    ...(subjects.length > 1 ? [row(`${kind}-total`, { text: 'Total' }, { sum: total })] : []),
  ];
  const columns = [
    one,
    ...(isOfTools ? ['Tool'] : []),
    'Calls',
    'Errors',
    'Denied',
    ...(isTimed ? ['Median', 'p90', 'p99'] : []),
  ];
  return {
    caption: `${many}, busiest first`,
    columns,
    rows: [
      ...subjects.map(({ serverId, subject, total: sum }, index) => {
        const its = { ...shown, serverId, subject };
        const name = { text: names.of({ serverId, subject }), href: usagePath(organization, its) };
        const tool = isOfTools ? { tool: names.tool({ serverId, subject }) } : {};
        return row(`${kind}-${index}`, { ...name, ...tool }, { sum, calls: recordedCalls(its) });
      }),
      ...sums,
    ],
    empty: { text: 'No calls match the filter.' },
    now,
  };
}

/** The query that selects the calls of a row in Activity; `undefined` if Activity has no such filter. */
function recordedCalls(shown: UsagePageQuery): ActivityQuery | undefined {
  const { kind, subject = '' } = shown;
  const name = kind === 'caller' ? readCallerSubject(subject)?.tool : subject;
  return kind === 'method' || name === otherNames ? undefined : activityQuery(shown);
}

/** Returns the names of subjects, also of deleted ones. */
export interface UsageNames {
  /** The name of a row, with its server where there are several. For a caller with a tool, only the caller. */
  readonly of: (subject: CallSubject) => string;
  /** For a caller with a tool, the tool. */
  readonly tool: (subject: CallSubject) => string;
  readonly subject: (id: string) => string;
}

/** Finds the names of all subjects in a reading, and of the selected one. */
export async function namesOf(
  { subjects }: Pick<UsageReading, 'subjects'>,
  { kind, subject: selected, serverId: ofServer }: UsagePageQuery,
  servers: ReadonlyMap<string, string>,
  db: Db,
): Promise<UsageNames> {
  const ids = new Set(subjects.map(({ subject }) => subject));
  if (selected !== undefined) ids.add(selected);
  const names = await (kind === 'caller'
    ? findCallerNames(db, [...ids])
    : findSubjectNames(db, kind, [...ids]));
  const isOfOne =
    ofServer !== undefined || new Set(subjects.map(({ serverId }) => serverId)).size === 1;
  const withServer = (text: string, serverId: string) =>
    kind === 'server' || isOfOne ? text : `${text} · ${servers.get(serverId) ?? 'deleted server'}`;
  const name = (id: string) => {
    const server = kind === 'server' ? servers.get(id) : undefined;
    const bare = kind === 'caller' ? (readCallerSubject(id)?.caller.id ?? id) : id;
    return server ?? displayName(names.get(id) ?? `Deleted (${bare})`);
  };
  const toolIn = (id: string) => displayName(readCallerSubject(id)?.tool ?? '');
  return {
    of: ({ serverId, subject }) =>
      kind === 'caller' ? name(subject) : withServer(name(subject), serverId),
    tool: ({ serverId, subject }) => withServer(toolIn(subject), serverId),
    subject: (id) => (kind === 'caller' ? `${name(id)} · ${toolIn(id)}` : name(id)),
  };
}

const seriesHead = 'series,from,calls,tool_errors,refused,upstream_errors,p50_ms,p90_ms,p99_ms';

/** The numbers as CSV, one row per series and step; latencies only for the total. RFC 4180 */
export function usageCsv(
  series: readonly {
    readonly name: string;
    readonly points: readonly (Numbers & { readonly at: EpochSeconds })[];
  }[],
): string {
  const rows = series.flatMap(({ name, points }) =>
    points.map((point) => [csvCell(name), isoTime(point.at), ...csvNumbers(point)].join(',')),
  );
  return [seriesHead, ...rows, ''].join('\r\n');
}

function csvNumbers({ p50, p90, p99, ...counts }: Numbers): string[] {
  const latencies = [p50, p90, p99].map((ms) => ms?.toFixed(1) ?? '');
  return [...csvCounts(counts), ...latencies];
}

function csvCounts({ calls, toolErrors, refused, upstreamErrors }: CallCounts): string[] {
  return [calls, toolErrors, refused, upstreamErrors].map(String);
}

const callersHead = 'caller,caller_id,tool,server,calls,tool_errors,refused,upstream_errors';

/** Callers and tools as CSV, one row for each pair at each server. */
export function callersCsv(
  { subjects }: Pick<UsageReading, 'subjects'>,
  names: UsageNames,
  servers: ReadonlyMap<string, string>,
): string {
  const rows = subjects.map(({ serverId, subject, total }) => {
    const { caller, tool } = readCallerSubject(subject) ?? {};
    const words = [
      names.of({ serverId, subject }),
      caller?.id ?? '',
      tool ?? '',
      servers.get(serverId) ?? serverId,
    ];
    return [...words.map(csvCell), ...csvCounts(total)].join(',');
  });
  return [callersHead, ...rows, ''].join('\r\n');
}
