import { z } from 'zod';

import { gapWords } from '#activity/call-words';
import { findGaps } from '#db/call-gaps';
import type { CallFilter } from '#db/find-calls';
import type { Db } from '#db/transaction';
import { gapReasons } from '#model/calls';
import { fields } from './fields.ts';
import type { Out } from './print.ts';

// Calls that were answered but not recorded, or whose end was not recorded: lists and exports say when, and why.

export const gapViewSchema = z.object({
  from: fields.at,
  until: fields.at,
  calls: z.int().nullable().describe('How many; `null` for readers who see only their own calls'),
  reason: z.enum(gapReasons),
});

type GapView = z.output<typeof gapViewSchema>;

/**
 * The gaps in the time range of a filter, newest first. Readers who see only their own calls do not learn how many calls are missing: most
 * of them were calls of others.
 */
export async function missingCalls(
  db: Db,
  organizationId: string,
  { fromMs, untilMs }: Pick<CallFilter, 'fromMs' | 'untilMs'>,
  isOwn: boolean,
): Promise<GapView[]> {
  const gaps = await findGaps(db, organizationId, { fromMs, untilMs });
  return gaps.map((gap) => ({
    from: Math.floor(gap.fromMs / 1000),
    until: Math.ceil(gap.untilMs / 1000),
    calls: isOwn ? null : gap.calls,
    reason: gap.reason,
  }));
}

/** Says on stderr which calls are missing, because programs read the calls on stdout. */
export function tellMissing(missing: readonly GapView[], tell: Out): void {
  const time = (at: number) => new Date(at * 1000).toISOString().replace('.000Z', 'Z');
  for (const { from, until, calls, reason } of missing) {
    const [what, are] = calls === 1 ? ['1 call', 'is'] : [`${calls} calls`, 'are'];
    tell(`${what} between ${time(from)} and ${time(until)} ${are} ${gapWords[reason]}`);
  }
}
