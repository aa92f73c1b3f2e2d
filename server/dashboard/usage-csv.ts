import { csvCell } from '#audit/csv-cell';
import type { EpochSeconds } from '#clock/clock';
import type { UsageReading } from '#usage/read-usage';
import type { CallCounts } from '#usage/rollup-store';
import type { UsageSum } from '#usage/usage-sum';
import type { NameOf } from './named-usage.ts';

const head = 'series,from,calls,tool_errors,refused,upstream_errors,p50_ms,p90_ms,p99_ms';

type Numbers = CallCounts & Partial<Pick<UsageSum, 'p50' | 'p90' | 'p99'>>;

/** The numbers of a reading as CSV, one row a series and step; latencies of the whole alone. RFC 4180 */
export function usageCsv(
  { points, lines }: UsageReading,
  wholeName: string,
  nameOf: NameOf,
): string {
  const row = (name: string, at: EpochSeconds, counts: Numbers) => {
    const from = new Date(at * 1000).toISOString().replace('.000', '');
    return [csvCell(name), from, ...numbers(counts)].join(',');
  };
  const rows = [
    ...points.map((point) => row(wholeName, point.at, point)),
    ...lines.flatMap((line) => line.points.map((point) => row(nameOf(line), point.at, point))),
  ];
  return [head, ...rows, ''].join('\r\n');
}

function numbers({ calls, toolErrors, refused, upstreamErrors, ...rest }: Numbers): string[] {
  const latencies = [rest.p50, rest.p90, rest.p99].map((ms) => ms?.toFixed(1) ?? '');
  return [...[calls, toolErrors, refused, upstreamErrors].map(String), ...latencies];
}
