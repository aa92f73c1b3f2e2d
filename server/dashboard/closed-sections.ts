import { mayDo } from '#administration/permission';
import type { DashboardSection } from '#pages/dashboard-frame';
import type { Role } from '#people/role';

/** Entries of the navigation behind which a role may look at nothing. */
export function closedSections(role: Role): readonly DashboardSection[] {
  return mayDo(role, 'audit.read') ? [] : ['audit'];
}
