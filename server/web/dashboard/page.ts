import type { FastifyReply } from 'fastify';
import type { Role } from '#model/roles';
import { mayDo } from '#admin/operation';
import { pageAssets } from '#web/assets';
import { type Crumb, type DashboardSection, type Page, sections } from '#web/layout';
import type { SurroundingsOf } from '#web/page-errors';
import { sendPage } from '#web/page-request';
import { currentPersonOf, type CurrentPersonPorts } from '#web/page-session';
import { type DashboardVisit, membershipOf, type MembershipPorts } from './guard.ts';

/** What differs between pages of the dashboard. */
export interface DashboardPageOptions {
  /** The breadcrumb after the organization; the last entry is the page itself. */
  readonly crumbs: readonly Crumb[];
  /** As in `PageOptions`. */
  readonly status?: number | undefined;
  /** The stream that announces changes to the live parts of the page; see `live.ts`. */
  readonly live?: string | undefined;
}

/** Sends a page in the dashboard's layout. */
export function sendDashboardPage<Data extends object>(
  reply: FastifyReply,
  { person, titled, role, others, mayCreate, section }: DashboardVisit,
  page: Page<Data>,
  data: Data,
  { crumbs, status, live }: DashboardPageOptions,
): FastifyReply {
  return sendPage(reply, page, data, {
    person,
    status,
    scripts: dashboardScripts(),
    live,
    dashboard: {
      organization: titled,
      others,
      mayCreate,
      section,
      closed: closedSections(role),
      crumbs,
    },
  });
}

/** Paths of the ES modules behind every page of the dashboard. */
export function dashboardScripts(): readonly string[] {
  const { htmx, copy, dashboard } = pageAssets();
  return [htmx.path, copy.path, dashboard.path];
}

/** Navigation entries whose pages the role may not open. */
function closedSections(role: Role): readonly DashboardSection[] {
  return sections.flatMap(({ section, needs }) => (mayDo(role, needs) ? [] : [section]));
}

/**
 * The surroundings of a dashboard error page: for members of the organization in the path, its navigation; for others
 * nothing, so that the response does not reveal whether the organization exists. `sectionOf` returns the navigation
 * entry of a route.
 */
export function errorSurroundings(
  base: string,
  sectionOf: (route: string) => DashboardSection | undefined,
  ports: CurrentPersonPorts & MembershipPorts,
): SurroundingsOf {
  const currentPerson = currentPersonOf(base, ports);
  return async (request) => {
    const organization = organizationIn(request.url);
    const person = await currentPerson(request);
    if (!person || organization === undefined) return undefined;
    const membership = await membershipOf(person, organization, ports);
    if (!membership?.isProved) return undefined;
    const { titled, role, others, mayCreate } = membership;
    const section = sectionOf(request.routeOptions.url ?? '');
    const closed = closedSections(role);
    return {
      person,
      scripts: dashboardScripts(),
      dashboard: {
        organization: titled,
        others,
        mayCreate,
        section,
        closed,
        crumbs: [],
      },
    };
  };
}

/** `acme` of `/dashboard/acme/servers`. */
function organizationIn(url: string): string | undefined {
  return /^\/dashboard\/([^/?]+)/.exec(url)?.[1];
}
