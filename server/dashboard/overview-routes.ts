import { keyList } from '#administration/key-operations';
import { perform } from '#administration/perform';
import { serverList } from '#administration/server-operations';
import { notFound } from '#administration/administration-refusal';
import type { AuditEvent, AuditReader } from '#audit/audit-log';
import { dashboardPath } from '#pages/dashboard-frame';
import { overviewPage } from '#pages/overview-page';
import { callPlots } from '#pages/usage-plots';
import { callWords } from '#pages/usage-words';
import { readServerUsage } from '#usage/read-usage';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { namedUsage } from './named-usage.ts';
import { endpointTable, oldKeyTable, refusalTable } from './overview-tables.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { usagePath } from './usage-query.ts';

/** An event as the overview names it. */
export type RefusedEvent = Pick<AuditEvent, 'at' | 'actor' | 'action' | 'target'>;

/** What the overview stands on besides the rest. */
export interface OverviewRoutesPorts {
  readonly auditReader: AuditReader;
}

const needs = { permission: 'organization.read', section: 'overview' } as const;
const shown = { range: '24h', kind: 'server', subject: undefined } as const;
const mostServers = 10;
const mostKeys = 5;
const mostRefusals = 5;
const oldKeyDays = 90;

/** `/dashboard/{organization}`: its endpoints, its last day, old keys and refusals. */
export function overviewRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  const oldKeys = async ({ organization, actor }: DashboardVisit) => {
    const wanted = { organization, status: 'active', sort: 'created_at', order: 'asc', limit: 50 };
    const { items } = await perform(keyList, wanted, actor, ports);
    return items.filter(({ ageDays }) => ageDays >= oldKeyDays);
  };

  /** With people by their addresses rather than their ids. */
  const refusals = async (organization: string): Promise<RefusedEvent[]> => {
    const events = await ports.auditReader.read({
      organization,
      outcome: 'refused',
      limit: mostRefusals,
    });
    const ids = events.map(({ actor }) => /^user:(.+)$/.exec(actor)?.[1] ?? '').filter(Boolean);
    const people = await ports.subjectNames.of('person', ids);
    return events.map(({ at, actor, action, target }) => {
      const who = people.get(actor.slice('user:'.length)) ?? actor;
      return { at, action, target, actor: who };
    });
  };

  door.get('', needs, async (visit, _request, reply) => {
    const { organization, actor, may } = visit;
    const found = await ports.organizations.byName(organization);
    if (!found) throw notFound('organization');
    const now = clock.now();
    const wanted = { organization, sort: 'name', limit: mostServers };
    const { items, total } = await perform(serverList, wanted, actor, ports);
    const ids = items.map(({ id }) => id);
    const of = { ...shown, organizationId: found.id };
    const reading = await readServerUsage(of, ids, now, ports);
    const keys = await oldKeys(visit);
    const home = dashboardPath(organization);
    const create = { text: 'Create server', href: `${home}/new-server` };
    const action = may('server.manage') ? create : undefined;
    const whole = namedUsage({ ...reading, subjects: [], lines: [] }, organization, () => '');
    const { calls } = reading.total;
    const data = {
      heading: organization,
      lead: `${total} ${total === 1 ? 'server' : 'servers'}, ${callWords(calls)} ${calls === 1 ? 'call' : 'calls'} in the last day.`,
      action,
      plots: calls === 0 ? [] : callPlots(whole),
      usage: usagePath(organization, shown),
      endpoints: endpointTable(items, reading.servers, { base, now, action }),
      servers:
        total > items.length
          ? { text: `All ${total} servers`, href: `${home}/servers` }
          : undefined,
      keys: oldKeyTable(organization, keys.slice(0, mostKeys), now),
      moreKeys:
        keys.length > mostKeys
          ? `The oldest ${mostKeys} of ${keys.length === 50 ? '50 or more' : keys.length}.`
          : undefined,
      refusals: may('audit.read') ? refusalTable(await refusals(organization), now) : undefined,
    };
    return sendDashboardPage(reply, visit, overviewPage, data, { crumbs: [] });
  });
}
