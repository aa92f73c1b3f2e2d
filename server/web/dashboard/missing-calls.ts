import { gapWords } from '#activity/call-words';
import { ownCallsOnly } from '#admin/calls';
import { missingCalls } from '#admin/missing-calls';
import type { CallFilter } from '#db/find-calls';
import { findOrganization } from '#db/organizations';
import { html, type Html } from '#web/html';
import { localTime } from '#web/times';
import type { DashboardVisit } from './guard.ts';
import type { DashboardPorts } from './ports.ts';

const minute = 60;
const mostShown = 3;

/** Says which calls in the selected time were not recorded, or only without their end; `undefined` if there are none. */
export async function missingNotice(
  visit: DashboardVisit,
  filter: CallFilter,
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<Html | undefined> {
  const organization = await findOrganization(db, visit.organization);
  if (!organization) return undefined;
  const isOwn = ownCallsOnly(visit) !== undefined;
  const gaps = await missingCalls(db, organization.id, filter, isOwn);
  const more = gaps.length - mostShown;
  if (gaps.length === 0) return undefined;
  return html`<div class="notice" role="status">
${gaps.slice(0, mostShown).map(({ from, until, calls, reason }) => {
  const first = localTime('moment', Math.floor(from / minute) * minute);
  const last = localTime('moment', (Math.floor(until / minute) + 1) * minute);
  const between = html`between ${first} and ${last}`;
  const are =
    calls === null
      ? html`Calls ${between} may be`
      : html`${calls} ${calls === 1 ? 'call' : 'calls'} ${between} ${calls === 1 ? 'is' : 'are'}`;
  return html`<p>${are} ${gapWords[reason]}.</p>`;
})}
${more > 0 && html`<p>${more} earlier ${more === 1 ? 'gap' : 'gaps'} in this time.</p>`}
</div>`;
}
