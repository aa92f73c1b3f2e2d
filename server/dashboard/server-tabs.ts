import { dashboardPath } from '#pages/dashboard-frame';
import type { DashboardVisit } from './dashboard-door.ts';

/** The path of a server's page. */
export function serverPath(organization: string, server: string): string {
  return `${dashboardPath(organization)}/servers/${server}`;
}

/** The pages of one server in their order; one appears once it is there. */
const pages = [
  { tab: 'connect', text: 'Connect', path: '', isThere: true, needs: 'server.read' },
  { tab: 'clients', text: 'OAuth clients', path: '/clients', isThere: true, needs: 'client.read' },
  { tab: 'keys', text: 'API keys', path: '/keys', isThere: true, needs: 'key.read' },
  { tab: 'try', text: 'Try it', path: '/try', isThere: true, needs: 'server.try' },
  { tab: 'tools', text: 'Tools', path: '/tools', isThere: true, needs: 'server.read' },
  { tab: 'access', text: 'Access', path: '/access', isThere: true, needs: 'server.read' },
  {
    tab: 'upstream',
    text: 'Authorization',
    path: '/upstream',
    isThere: true,
    needs: 'server.manage',
  },
  {
    tab: 'settings',
    text: 'Settings',
    path: '/settings',
    isThere: true,
    needs: 'server.manage',
  },
] as const;

/** A page of a server, by the word that `serverTabs` marks it by. */
export type ServerTab = (typeof pages)[number]['tab'];

/** The pages of one server that this person may see, for the template. */
export function serverTabs({ organization, may }: DashboardVisit, server: string, here: ServerTab) {
  const home = serverPath(organization, server);
  return {
    label: `Server ${server}`,
    entries: pages
      .filter(({ isThere, needs }) => isThere && may(needs))
      .map(({ tab, text, path }) => ({ text, href: home + path, isHere: tab === here })),
  };
}
