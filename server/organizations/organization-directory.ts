import type { Page, PageQuery } from '#listing/page';
import type { Organization } from './organization-store.ts';

export interface OrganizationQuery extends PageQuery<'name'> {
  /** Only these; all of them where it is not given. */
  readonly names?: readonly string[] | undefined;
}

/** Organizations as those who look after them see them. */
export interface OrganizationDirectory {
  page(query: OrganizationQuery): Promise<Page<Organization>>;

  /** What pages call it. Its name stays, as every endpoint's URL and the audit log hold it. */
  entitle(id: string, title: string): Promise<void>;
}
