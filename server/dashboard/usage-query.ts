import { queryText } from '#http/query-text';
import { dashboardPath } from '#pages/dashboard-frame';
import { callKinds, type CallKind, type CallSubject } from '#usage/rollup-store';
import { isUsageRange, usageRanges, type UsageRange } from '#usage/usage-range';
import type { DashboardRequest } from './dashboard-door.ts';

/** What of usage a page shows; all of it is in the URL. */
export interface ShownUsage {
  readonly range: UsageRange;
  readonly kind: CallKind;
  readonly subject: CallSubject | undefined;
}

/** What a URL asks for: the last day by servers where it says nothing that is known. */
export function shownUsage(request: DashboardRequest): ShownUsage {
  const range = queryText(request, 'range') ?? '';
  const by = queryText(request, 'by');
  const [serverId, subject] = [queryText(request, 'server'), queryText(request, 'of')];
  return {
    range: isUsageRange(range) ? range : '24h',
    kind: callKinds.find((kind) => kind === by) ?? 'server',
    subject: serverId !== undefined && subject !== undefined ? { serverId, subject } : undefined,
  };
}

/** Where to see that; `path` is `/usage` or `/usage.csv`. */
export function usagePath(
  organization: string,
  { range, kind, subject }: ShownUsage,
  path = '/usage',
): string {
  const all = `${dashboardPath(organization)}${path}?range=${range}&by=${kind}`;
  if (!subject) return all;
  return `${all}&server=${queryWord(subject.serverId)}&of=${queryWord(subject.subject)}`;
}

/** A value of a query. What stands in one as it is, is most of what there is, and a page has many. */
function queryWord(text: string): string {
  return /^[\w.-]*$/.test(text) ? text : new URLSearchParams([['', text]]).toString().slice(1);
}

/** The ranges as links read. */
export const rangeWords: Readonly<Record<UsageRange, string>> = {
  '1h': 'Hour',
  '24h': 'Day',
  '7d': 'Week',
  '30d': '30 days',
  '90d': '90 days',
};

/** What calls are counted for as links read. */
export const kindWords: Readonly<Record<CallKind, { one: string; many: string }>> = {
  server: { one: 'Server', many: 'Servers' },
  client: { one: 'OAuth client', many: 'OAuth clients' },
  key: { one: 'API key', many: 'API keys' },
  tool: { one: 'Tool', many: 'Tools' },
  method: { one: 'Method', many: 'Methods' },
  person: { one: 'Person', many: 'Tried by' },
};

export const rangesInOrder = Object.keys(usageRanges).filter(isUsageRange);
