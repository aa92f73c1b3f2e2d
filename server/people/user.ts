import type { EpochSeconds } from '#clock/clock';
import type { Role } from './role.ts';

/** A person who can sign in. */
export interface User {
  /** `user_` and 16 base62 characters. */
  readonly id: string;
  /** As typed, compared without regard to case. */
  readonly email: string;
  readonly createdAt: EpochSeconds;
}

/** A person's place in one organization. */
export interface Membership {
  readonly organization: string;
  readonly role: Role;
}

/** Where people are kept, and what they are where. Reads see every write that has resolved. */
export interface UserStore {
  /** Adds the person, or only the membership when the address is known; `false` when both are. */
  add(user: User, membership: { organizationId: string; role: Role }): Promise<boolean>;

  byEmail(email: string): Promise<User | undefined>;

  byId(id: string): Promise<User | undefined>;

  /** The person's memberships; a removed one is gone at once. */
  memberships(userId: string): Promise<Membership[]>;

  /** Whether anybody is here at all. */
  hasAny(): Promise<boolean>;

  /** Every person with their memberships, oldest first. */
  list(): Promise<{ user: User; memberships: Membership[] }[]>;

  /** Removes the person with sessions, passwords, passkeys and grants; `false` when there is none. */
  remove(userId: string): Promise<boolean>;
}
