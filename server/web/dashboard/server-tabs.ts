import { serverRead } from '#admin/servers';
import { type Crumb, dashboardPath, titledCrumb } from '#web/layout';
import { titleText } from '#web/titles';
import type { DashboardRequest, DashboardVisit } from './guard.ts';

/** The server that the path names. @throws {AdministrationRefusal} `not_found` */
export function serverOf({ perform }: DashboardVisit, { params }: DashboardRequest) {
  return perform(serverRead, { server: params['server'] ?? '' });
}

/** The path of a server's page. */
export function serverPath(organization: string, server: string): string {
  return `${dashboardPath(organization)}/servers/${server}`;
}

/** The pages of a server, in order. `of` says which servers have them: all, collections, or the others, which reach one MCP server. */
const pages = [
  { tab: 'connect', text: 'Connect', path: '', of: 'all', needs: 'server.read' },
  { tab: 'members', text: 'Members', path: '/members', of: 'collections', needs: 'server.read' },
  { tab: 'clients', text: 'OAuth clients', path: '/clients', of: 'all', needs: 'client.read' },
  { tab: 'keys', text: 'API keys', path: '/keys', of: 'all', needs: 'key.read' },
  { tab: 'try', text: 'Try it', path: '/try', of: 'all', needs: 'server.try' },
  { tab: 'tools', text: 'Tools', path: '/tools', of: 'all', needs: 'server.read' },
  { tab: 'access', text: 'Access', path: '/access', of: 'all', needs: 'people.read' },
  {
    tab: 'upstream',
    text: 'Upstream authentication',
    path: '/upstream',
    of: 'others',
    needs: 'server.manage',
  },
  { tab: 'settings', text: 'Settings', path: '/settings', of: 'all', needs: 'server.manage' },
] as const;

/** A page of a server, as a key for `serverTabs`. */
export type ServerTab = (typeof pages)[number]['tab'];

/** The pages that are of no use to people who can neither use nor manage the server. */
const aboutUse: ReadonlySet<ServerTab> = new Set(['members', 'clients', 'keys', 'try']);

/** Whether a person can neither use nor manage the server of the page. */
export function isExcluded({ server, may }: DashboardVisit): boolean {
  return server.isClosed && !may('server.manage');
}

/** The tabs of a server that this person may see. */
export function serverTabs(visit: DashboardVisit, server: string, here: ServerTab) {
  const { organization, may } = visit;
  const home = serverPath(organization, server);
  const absent = visit.server.isCollection ? 'others' : 'collections';
  return {
    label: `Server ${titleText(visit.server)}`,
    entries: pages
      .filter(({ of, needs }) => of !== absent && may(needs))
      .filter(({ tab }) => !(aboutUse.has(tab) && isExcluded(visit)))
      .map(({ tab, text, path }) => ({ text, href: home + path, isHere: tab === here })),
  };
}

/** The breadcrumb of a page of the server in its path: the server, and the pages below it. */
export function serverCrumbs(
  { organization, server }: DashboardVisit,
  ...more: readonly Crumb[]
): readonly Crumb[] {
  const servers = { text: 'Servers', href: `${dashboardPath(organization)}/servers` };
  const here = { ...titledCrumb(server), href: serverPath(organization, server.name) };
  return [servers, here, ...more];
}
