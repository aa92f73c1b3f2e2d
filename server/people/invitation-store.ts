import type { EpochSeconds } from '#clock/clock';
import type { Role } from './role.ts';
import type { User } from './user.ts';

/**
 * An open offer to belong to an organization. Whoever has its link may take it, once, while whoever made it
 * may make it still.
 */
export interface Invitation {
  /** `invitation_` and 16 base62 characters; names it in lists, opens nothing. */
  readonly id: string;
  readonly organizationId: string;
  readonly organization: string;
  readonly role: Role;
  readonly groupIds: readonly string[];
  /** Whom it is meant for, as whoever made it wrote down; nobody is checked against it. */
  readonly note: string;
  /** The actor who made it. */
  readonly createdBy: string;
  readonly createdAt: EpochSeconds;
  readonly expiresAt: EpochSeconds;
}

/** What became of taking an invitation. */
export type InvitationTaken = 'done' | 'over' | 'member-already' | 'address-taken';

/** Who takes an invitation: somebody who is known by their id, or a person it makes. */
export type Invitee =
  | { readonly id: string; readonly email?: undefined }
  | (User & {
      readonly passwordHash?: string | undefined;
      readonly identity?: { readonly issuer: string; readonly subject: string } | undefined;
    });

/** Where invitations are kept, by the SHA-256 of their link's token. */
export interface InvitationStore {
  add(invitation: Omit<Invitation, 'organization'> & { tokenHash: string }): Promise<void>;

  /** What a live link offers; looking uses nothing up. */
  peek(tokenHash: string, now: EpochSeconds): Promise<Invitation | undefined>;

  /**
   * Makes the person, where they are new, and a member of them, with the role and those of the groups that
   * are still there, and uses the link up; all or nothing. Of several at once one succeeds. Whoever is a member already leaves it as it is.
   */
  take(tokenHash: string, invitee: Invitee, now: EpochSeconds): Promise<InvitationTaken>;

  /** The pending ones, the newest first. */
  list(organizationId: string, now: EpochSeconds): Promise<Invitation[]>;

  /** `false` when the organization has no such invitation. */
  revoke(organizationId: string, id: string): Promise<boolean>;
}
