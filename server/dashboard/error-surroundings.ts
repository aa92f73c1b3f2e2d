import { currentPersonOf, type CurrentPersonPorts } from '#http/current-person';
import type { SurroundingsOf } from '#http/page-errors';
import type { DashboardSection } from '#pages/dashboard-frame';
import { closedSections } from './closed-sections.ts';
import { dashboardScripts } from './dashboard-scripts.ts';
import { membershipOf, type MembershipPorts } from './membership-of.ts';

/**
 * What stands around an error in the dashboard: for a member of the organization that the path names, the navigation of
 * every other page of it; for everybody else nothing, so that the answer says of no organization whether it exists.
 * `sectionOf` knows the entry of the navigation that a route belongs to.
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
    const { role, others } = membership;
    const section = sectionOf(request.routeOptions.url ?? '');
    const closed = closedSections(role);
    return {
      person,
      scripts: dashboardScripts(),
      dashboard: { organization, others, section, closed, crumbs: [], live: undefined },
    };
  };
}

/** `acme` of `/dashboard/acme/servers`. */
function organizationIn(url: string): string | undefined {
  return /^\/dashboard\/([^/?]+)/.exec(url)?.[1];
}
