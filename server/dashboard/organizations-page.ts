import type { Page } from '#pages/page';
import type { Table } from '#pages/table';

/** A person's organizations, and whether they may make another. */
export interface OrganizationsPageData {
  readonly table: Table;
  /** Only who owns an organization may make another one. */
  readonly mayCreate: boolean;
}

/** The organizations of a person: where to go, and what to do where there is none. */
export const organizationsPage: Page<OrganizationsPageData> = {
  title: () => 'Organizations',
  width: 'text',
  template: `<%~ include('@heading', { heading: 'Organizations', lead: '', badges: [],
  action: it.mayCreate ? { text: 'Create organization', href: '/new-organization' } : undefined }) %>
<%~ include('@table', it.table) %>`,
};
