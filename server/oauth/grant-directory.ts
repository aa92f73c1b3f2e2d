import type { Page } from '#listing/page';
import type { EpochSeconds } from '#clock/clock';
import type { NamedGrant } from './grant-store.ts';

/** A grant as an administrator sees it. */
export interface DirectoryGrant extends NamedGrant {
  readonly email: string;
  /** Whether the application made itself known, rather than an administrator. */
  readonly isOpenClient: boolean;
}

/** What the people of an organization allowed applications to do at its servers. */
export interface GrantDirectory {
  /** Those in force at `now`, the newest first; of one person where one is given. */
  page(query: {
    organizationId: string;
    userId?: string | undefined;
    /** The one with this id, if it is among them. */
    grantId?: string | undefined;
    /** In the name of the application or the address of the person. */
    text?: string | undefined;
    now: EpochSeconds;
    limit: number;
    offset: number;
  }): Promise<Page<DirectoryGrant>>;
}
