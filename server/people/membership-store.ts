import type { EpochSeconds } from '#clock/clock';
import type { Role } from './role.ts';

/** A person as their organization knows them. */
export interface Member {
  readonly userId: string;
  readonly email: string;
  readonly role: Role;
  readonly groups: readonly { readonly id: string; readonly name: string }[];
  /** Whether a sign-in of theirs can prove two factors. */
  readonly hasSecondFactor: boolean;
  /** When a browser of theirs was last here. */
  readonly seenAt: EpochSeconds | undefined;
}

/**
 * What became of a change: `stale` when the person has another role by now or is no member any more,
 * `last-owner` when it would leave the organization without one.
 */
export type MembershipChange = 'done' | 'stale' | 'last-owner';

/**
 * Who belongs to an organization, as what. However many change it at once, an organization that had an
 * owner keeps one. What a change takes away is gone at the next request.
 */
export interface MembershipStore {
  /** Members by their address: those after `after`, at most `limit`, whose address contains `search`. */
  list(
    organizationId: string,
    page: { after?: string | undefined; search?: string | undefined; limit: number },
  ): Promise<Member[]>;

  of(organizationId: string, userId: string): Promise<Member | undefined>;

  setRole(
    organizationId: string,
    userId: string,
    role: { from: Role; to: Role },
  ): Promise<MembershipChange>;

  /** Also ends what the person granted at this organization's servers, and their places in its groups. */
  remove(organizationId: string, userId: string, from: Role): Promise<MembershipChange>;

  /** Makes `to`, a member, an owner, and `from`, an owner, an admin; both or neither. */
  transfer(organizationId: string, people: { from: string; to: string }): Promise<boolean>;
}
