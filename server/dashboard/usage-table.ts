import type { EpochSeconds } from '#clock/clock';
import type { Table } from '#pages/table';
import { callWords, msWords, shareWords } from '#pages/usage-words';
import type { UsageReading } from '#usage/read-usage';
import type { NameOf } from './named-usage.ts';
import { kindWords, usagePath, type ShownUsage } from './usage-query.ts';

const columns = ['Calls', 'Errors', 'Of them refused', 'p50', 'p90', 'p99'];

/** The things that were called most, each with a link to itself. */
export function usageTable(
  organization: string,
  shown: ShownUsage,
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
