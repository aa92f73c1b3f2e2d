import { notFound } from '#administration/administration-refusal';
import type { Clock } from '#clock/clock';
import type { OrganizationStore } from '#organizations/organization-store';
import { usageNumbers } from '#pages/usage-numbers';
import { usagePage } from '#pages/usage-page';
import { usagePlots } from '#pages/usage-plots';
import { callWords, shareWords } from '#pages/usage-words';
import { readUsage, type UsageReading } from '#usage/read-usage';
import type { RollupReader } from '#usage/rollup-reader';
import { callKinds } from '#usage/rollup-store';
import type { SubjectNames } from '#usage/subject-names';
import { rangeAt } from '#usage/usage-range';
import type { ChangeStore } from './change-store.ts';
import type { DashboardDoor } from './dashboard-door.ts';
import { namedUsage, namesOf } from './named-usage.ts';
import { recalledWork } from './recalled-work.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { usageCsv } from './usage-csv.ts';
import {
  kindWords,
  rangesInOrder,
  rangeWords,
  shownUsage,
  usagePath,
  type ShownUsage,
} from './usage-query.ts';
import { usageTable } from './usage-table.ts';

export interface UsageRoutesPorts {
  readonly organizations: OrganizationStore;
  readonly rollupReader: RollupReader;
  readonly subjectNames: SubjectNames;
  readonly changes: Pick<ChangeStore, 'written'>;
  readonly clock: Clock;
}

const needs = { permission: 'usage.read', section: 'usage' } as const;

/** `/usage` and `/usage.csv`: calls, errors and latencies of an organization, and of each thing in it. */
export function usageRoutes(door: DashboardDoor, { ports }: { ports: UsageRoutesPorts }): void {
  const { clock } = ports;
  const recalled = recalledWork(ports.changes);

  const read = async (organization: string, shown: ShownUsage) => {
    const found = await ports.organizations.byName(organization);
    if (!found) throw notFound('organization');
    const { kind, subject } = shown;
    // Whoever types the id of somebody else’s thing must not be told what that is called.
    if (subject && !(await ports.rollupReader.has(found.id, { kind, ...subject }, clock.now()))) {
      throw notFound('usage');
    }
    const reading = await readUsage({ ...shown, organizationId: found.id }, clock.now(), ports);
    const nameOf = await namesOf(reading, shown, ports.subjectNames);
    const name = shown.subject ? nameOf(shown.subject) : organization;
    return { reading, nameOf, name };
  };

  const page = async (organization: string, shown: ShownUsage) => {
    const { reading, nameOf, name } = await read(organization, shown);
    const here = (but: Partial<ShownUsage>) => usagePath(organization, { ...shown, ...but });
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

  door.get('/usage', needs, async (visit, request, reply) => {
    const { organization } = visit;
    const shown = shownUsage(request);
    const { until } = rangeAt(shown.range, clock.now());
    const data = await recalled([organization, shown, until], () => page(organization, shown));
    const whole = usagePath(organization, { ...shown, subject: undefined });
    const crumbs = shown.subject
      ? [{ text: 'Usage', href: whole }, { text: `${kindWords[shown.kind].one} ${data.name}` }]
      : [{ text: 'Usage' }];
    return sendDashboardPage(reply, visit, usagePage, data, { crumbs });
  });

  door.get('/usage.csv', needs, async ({ organization }, request, reply) => {
    const shown = shownUsage(request);
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

/** What happened, in one sentence. */
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
