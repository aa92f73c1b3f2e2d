import { shownName } from './plain-text.ts';

/** A step of the breadcrumb; the last one is the page itself and leads nowhere. */
export interface Crumb {
  readonly text: string;
  readonly href?: string;
}

/** What surrounds a page of the dashboard: where one is, and where one can go. */
export interface DashboardFrame {
  /** The organization that the page is of. */
  readonly organization: string;
  /** The person's other organizations, for the switcher. */
  readonly others: readonly string[];
  /** Which entry of the navigation the page belongs to, if one. */
  readonly section: DashboardSection | undefined;
  /** Entries that the person may not open, and that are not there for them. */
  readonly closed: readonly DashboardSection[];
  /** What follows the organization in the breadcrumb, as server and thing. */
  readonly crumbs: readonly Crumb[];
  /** Path of the server-sent events that say when something of this page changed, if it is live. */
  readonly live: string | undefined;
}

/** The entries of the navigation in their order; one appears once its page is there. */
export const dashboardSections = [
  { section: 'overview', text: 'Overview', path: '', isThere: true },
  { section: 'servers', text: 'Servers', path: '/servers', isThere: true },
  { section: 'agents', text: 'Agents', path: '/agents', isThere: true },
  { section: 'people', text: 'People', path: '/people', isThere: true },
  { section: 'groups', text: 'Groups', path: '/groups', isThere: true },
  { section: 'usage', text: 'Usage', path: '/usage', isThere: true },
  { section: 'audit', text: 'Audit log', path: '/audit', isThere: true },
  { section: 'settings', text: 'Settings', path: '/settings', isThere: true },
] as const;

export type DashboardSection = (typeof dashboardSections)[number]['section'];

/** Where an organization's pages start. */
export function dashboardPath(organization: string): string {
  return `/dashboard/${organization}`;
}

/** The navigation of a page, ready for the template. */
export function dashboardNavigation({
  organization,
  others,
  section,
  closed,
  crumbs,
}: DashboardFrame) {
  const home = dashboardPath(organization);
  return {
    home,
    organization,
    others: others.map((name) => ({ text: name, href: dashboardPath(name) })),
    entries: dashboardSections
      .filter((entry) => entry.isThere && !closed.includes(entry.section))
      .map((entry) => ({
        text: entry.text,
        href: home + entry.path,
        isHere: entry.section === section,
      })),
    crumbs: [{ text: organization, href: home }, ...crumbs].map(({ text, href }) => ({
      text: shownName(text, 40),
      href,
    })),
  };
}
