import type { EpochSeconds } from '#clock/clock';

/** People of one organization who may use certain servers of it. */
export interface Group {
  /** `group_` and 16 base62 characters. */
  readonly id: string;
  readonly organizationId: string;
  readonly name: string;
  readonly createdAt: EpochSeconds;
}

/** A group with how many people are in it, and the servers that it opens. */
export interface GroupOverview extends Group {
  readonly memberCount: number;
  readonly servers: readonly string[];
}

/** Who put somebody into a group: a person, or what the OpenID provider says of them. */
export type MembershipSource = 'hand' | 'provider';

/** Where groups are kept. */
export interface GroupStore {
  /** `false` when the organization has a group of that name. */
  add(group: Group): Promise<boolean>;

  /** `false` when there is none, or another group has the name. */
  rename(organizationId: string, groupId: string, name: string): Promise<boolean>;

  /** `in-use` while a server is open to this group: without it, everybody could use that server. */
  remove(organizationId: string, groupId: string): Promise<'done' | 'unknown' | 'in-use'>;

  /** By name. */
  list(organizationId: string): Promise<GroupOverview[]>;
}

/**
 * Who is in which group: whom somebody put there by hand, and whom a mapping puts there by what the
 * OpenID provider said of them when they last signed in by it. Only the former can be added or removed.
 */
export interface GroupMemberStore {
  /** By address; who is in it both ways is there once, as `hand`. */
  list(groupId: string): Promise<{ userId: string; email: string; source: MembershipSource }[]>;

  /** `false` unless group and person belong to the organization. Adding twice is adding once. */
  add(organizationId: string, groupId: string, userId: string): Promise<boolean>;

  remove(organizationId: string, groupId: string, userId: string): Promise<boolean>;

  /** Replaces what the provider says of this account. */
  setProvided(issuer: string, subject: string, externalNames: readonly string[]): Promise<void>;
}

/** Which groups may use a server. None means every member of the organization. */
export interface ServerGroupStore {
  of(serverId: string): Promise<{ id: string; name: string }[]>;

  /** Replaces them; none opens the server to everybody. `false` when one of them is no group of the server's organization. */
  set(serverId: string, groupIds: readonly string[]): Promise<boolean>;

  /** Whether a member of the organization may use this server of it. */
  mayUse(userId: string, serverPath: string): Promise<boolean>;
}

/** What an organization calls the groups of its OpenID provider. */
export interface GroupMapping {
  readonly externalName: string;
  readonly groupId: string;
  readonly groupName: string;
}

export interface GroupMappingStore {
  list(organizationId: string): Promise<GroupMapping[]>;

  /** `false` when the group is none of the organization's. Mapping twice is mapping once. */
  add(organizationId: string, externalName: string, groupId: string): Promise<boolean>;

  /** Who was in the group by this mapping alone is in it no more. */
  remove(organizationId: string, externalName: string, groupId: string): Promise<boolean>;
}
