import type { AdministrationPorts } from '#administration/administration-ports';
import { notFound } from '#administration/administration-refusal';
import { keyList } from '#administration/key-operations';
import { perform } from '#administration/perform';
import { serverList } from '#administration/server-operations';
import type { AuditEvent, AuditReader } from '#audit/audit-log';
import { callPlots } from '#pages/usage-plots';
import { readServerUsage } from '#usage/read-usage';
import type { RollupReader } from '#usage/rollup-reader';
import type { SubjectNames } from '#usage/subject-names';
import type { DashboardVisit } from './dashboard-door.ts';
import { namedUsage } from './named-usage.ts';

/** An event as the overview names it. */
export type RefusedEvent = Pick<AuditEvent, 'at' | 'actor' | 'action' | 'target'>;

export interface OverviewFactsPorts extends AdministrationPorts {
  readonly auditReader: AuditReader;
  readonly rollupReader: RollupReader;
  readonly subjectNames: SubjectNames;
}

const mostServers = 10;
const mostKeys = 5;
const mostRefusals = 5;
const oldKeyDays = 90;

/** What the overview of an organization tells whoever has this role: endpoints, their last day, old keys, refusals. */
export async function overviewFacts(
  { organization, actor, may }: DashboardVisit,
  ports: OverviewFactsPorts,
) {
  const found = await ports.organizations.byName(organization);
  if (!found) throw notFound('organization');
  const wanted = { organization, sort: 'name', limit: mostServers };
  const { items: servers, total } = await perform(serverList, wanted, actor, ports);
  const of = { organizationId: found.id, range: '24h' } as const;
  const ids = servers.map(({ id }) => id);
  const reading = await readServerUsage(of, ids, ports.clock.now(), ports);
  const whole = namedUsage({ ...reading, subjects: [], lines: [] }, organization, () => '');
  const { calls } = reading.total;
  // One more than is shown, so that it can be said that there are more.
  const oldest = { status: 'active', sort: 'created_at', order: 'asc', limit: mostKeys + 1 };
  const { items } = await perform(keyList, { organization, ...oldest }, actor, ports);
  const oldKeys = items.filter(({ ageDays }) => ageDays >= oldKeyDays);
  return {
    servers,
    total,
    calls,
    plots: calls === 0 ? [] : callPlots(whole),
    usage: reading.servers,
    oldKeys: oldKeys.slice(0, mostKeys),
    hasMoreOldKeys: oldKeys.length > mostKeys,
    refusals: may('audit.read') ? await refusals(organization, ports) : undefined,
  };
}

/** With people by their addresses rather than their ids. */
async function refusals(
  organization: string,
  { auditReader, subjectNames }: OverviewFactsPorts,
): Promise<RefusedEvent[]> {
  const wanted = { organization, outcome: 'refused', limit: mostRefusals } as const;
  const events = await auditReader.read(wanted);
  const ids = events.map(({ actor }) => /^user:(.+)$/.exec(actor)?.[1] ?? '').filter(Boolean);
  const people = await subjectNames.of('person', ids);
  return events.map(({ at, actor, action, target }) => {
    const who = people.get(actor.slice('user:'.length)) ?? actor;
    return { at, action, target, actor: who };
  });
}
