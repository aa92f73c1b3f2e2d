import { callKinds, type CallKind, readCallerSubject } from '#model/call-counts';
import { isUsageRange, type UsageRange, usageRanges } from '#usage/read-usage';
import { dashboardPath } from '#web/layout';
import { queryText } from '#web/page-request';
import type { DashboardRequest } from './guard.ts';

/** The filter of a usage page, all of it in the URL. It selects the calls of the plots, the table and the CSV alike. */
export interface UsagePageQuery {
  readonly range: UsageRange;
  readonly kind: CallKind;
  readonly serverId?: string | undefined;
  readonly subject?: string | undefined;
}

/** Parses the filter; defaults to the last 24 hours by server. */
export function readUsagePageQuery(request: DashboardRequest): UsagePageQuery {
  const text = (name: string) => queryText(request, name) || undefined;
  const range = text('range') ?? '';
  // The form sends the client or key that was chosen, with its kind in front.
  const [, chosenKind, chosen] = /^(client|key):(.+)$/.exec(text('who') ?? '') ?? [];
  const by = chosenKind ?? text('by');
  return {
    range: isUsageRange(range) ? range : '24h',
    kind: callKinds.find((kind) => kind === by) ?? 'server',
    serverId: text('server'),
    subject: chosen ?? queryText(request, 'of'),
  };
}

/** The same selection on the page Activity, which does not filter by method. */
export function activityQuery({ kind, serverId, subject }: UsagePageQuery) {
  const endpoint = serverId ?? (kind === 'server' ? subject : undefined);
  switch (kind) {
    case 'client':
    case 'key':
      return { endpoint, credential: subject };
    case 'tool':
      return { endpoint, tool: subject };
    case 'person':
      return { endpoint, person: subject };
    case 'application':
      return subject === undefined
        ? { endpoint }
        : { endpoint, application: subject, versions: 'all' };
    case 'caller': {
      const { caller, tool } = (subject !== undefined && readCallerSubject(subject)) || {};
      const who = caller?.type === 'person' ? { person: caller.id } : { credential: caller?.id };
      return { endpoint, tool, ...who };
    }
    case 'server':
    case 'method':
      return { endpoint };
  }
}

/** The path of a filter; `path` is `/usage` or `/usage.csv`. */
export function usagePath(
  organization: string,
  { range, kind, serverId, subject }: UsagePageQuery,
  path = '/usage',
): string {
  const all = `${dashboardPath(organization)}${path}?range=${range}&by=${kind}`;
  const server = serverId === undefined ? '' : `&server=${queryWord(serverId)}`;
  return `${all}${server}${subject === undefined ? '' : `&of=${queryWord(subject)}`}`;
}

/** Encodes a query value. Most need no encoding, and a page has many. */
function queryWord(text: string): string {
  return /^[\w.-]*$/.test(text) ? text : new URLSearchParams([['', text]]).toString().slice(1);
}

export const rangeWords: Readonly<Record<UsageRange, string>> = {
  '1h': 'Last hour',
  '24h': 'Last 24 hours',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
};

/** Words for the kinds of subjects for which calls are counted, and for those calls. */
export const kindWords: Readonly<Record<CallKind, { one: string; many: string; calls: string }>> = {
  server: { one: 'Server', many: 'Servers', calls: 'to your servers' },
  client: { one: 'OAuth client', many: 'OAuth clients', calls: 'by OAuth clients' },
  key: { one: 'API key', many: 'API keys', calls: 'with API keys' },
  tool: { one: 'Tool', many: 'Tools', calls: 'to tools' },
  method: { one: 'Method', many: 'Methods', calls: 'of MCP methods' },
  person: { one: 'Person', many: 'People', calls: 'by people' },
  application: { one: 'Application', many: 'Applications', calls: 'by applications' },
  caller: { one: 'Caller', many: 'Callers and tools', calls: 'to tools' },
};

/** `API keys`, `servers`: abbreviations keep their capitals. */
export function inSentence(name: string): string {
  return /^[A-Z][a-z]/.test(name) ? name.charAt(0).toLowerCase() + name.slice(1) : name;
}

export const rangesInOrder = Object.keys(usageRanges).filter(isUsageRange);
