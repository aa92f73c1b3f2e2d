import { dashboardPath } from '#pages/dashboard-frame';
import type { DashboardVisit } from './dashboard-door.ts';

/** The pages about people, for the template. */
export function peopleTabs({ organization, may }: DashboardVisit, here: 'people' | 'consents') {
  const home = dashboardPath(organization);
  return {
    label: 'People',
    entries: [
      { text: 'Members', href: `${home}/people`, isHere: here === 'people' },
      ...(may('grants.read')
        ? [{ text: 'Consents', href: `${home}/consents`, isHere: here === 'consents' }]
        : []),
    ],
  };
}
