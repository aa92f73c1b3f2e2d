import { shownName } from '#pages/plain-text';
import type { PlottedUsage } from '#pages/usage-plots';
import type { CallSubject } from '#usage/rollup-store';
import type { UsageReading } from '#usage/read-usage';
import { errorsIn } from '#usage/usage-sum';
import type { SubjectNames } from '#usage/subject-names';
import type { ShownUsage } from './usage-query.ts';

/** Names for what calls are counted for; of what is gone, so much. */
export type NameOf = (subject: CallSubject) => string;

/** Finds the names of everything in a reading, and of the one thing that it is about. */
export async function namesOf(
  { lines, subjects }: Pick<UsageReading, 'lines' | 'subjects'>,
  { kind, subject }: Pick<ShownUsage, 'kind' | 'subject'>,
  names: SubjectNames,
): Promise<NameOf> {
  const all = [...lines, ...subjects, ...(subject ? [subject] : [])];
  const ids = (of: (one: CallSubject) => string) => [...new Set(all.map(of))];
  const own = await names.of(
    kind,
    ids((one) => one.subject),
  );
  const servers = await names.of(
    'server',
    ids(({ serverId }) => serverId),
  );
  const isOfOne = new Set(all.map(({ serverId }) => serverId)).size === 1;
  return ({ serverId, subject: id }) => {
    const name = shownName(own.get(id) ?? `${id} (gone)`);
    const server = servers.get(serverId) ?? 'a server that is gone';
    return kind === 'server' || (isOfOne && !subject) ? name : `${name} · ${server}`;
  };
}

/** A reading with names, as plots and tables take it. */
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
