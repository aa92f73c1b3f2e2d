import type { EpochSeconds } from '#clock/clock';

/** A person's account at an upstream, as long as they are a member and its access is in force. */
export interface UpstreamConnection {
  readonly id: string;
  readonly accessId: string;
  readonly serverId: string;
  readonly userId: string;
  readonly organizationId: string;
  /** `UpstreamTokens` as JSON, sealed for `tokensPurpose`. */
  readonly sealedTokens: string;
  /** Another one after every change of the tokens. */
  readonly version: number;
  readonly createdAt: EpochSeconds;
  /** When the tokens were last renewed. */
  readonly renewedAt: EpochSeconds;
  /** Since when the authorization server takes them no longer. */
  readonly failedAt?: EpochSeconds;
}

export type NewUpstreamConnection = Omit<UpstreamConnection, 'version' | 'renewedAt' | 'failedAt'>;

/** The accounts of people at upstreams. Whatever ends one counts at the next look. */
export interface UpstreamConnectionStore {
  of(accessId: string, userId: string): Promise<UpstreamConnection | undefined>;

  /** Takes the place of the person's earlier one, which ends. `false` when the person or the access is gone meanwhile. */
  put(connection: NewUpstreamConnection): Promise<boolean>;

  /** `true` for the one of many, in any process, who may renew this version's tokens until `until`. */
  claim(
    at: { readonly id: string; readonly version: number },
    times: { readonly now: EpochSeconds; readonly until: EpochSeconds },
  ): Promise<boolean>;

  /** `false` when the connection ended, or was made anew, meanwhile. */
  renew(
    at: { readonly id: string; readonly version: number },
    renewed: { readonly sealedTokens: string; readonly now: EpochSeconds },
  ): Promise<boolean>;

  /** Gives the claim up: for a next try, or, with `failedAt`, for good. */
  release(
    at: { readonly id: string; readonly version: number },
    failedAt?: EpochSeconds,
  ): Promise<void>;
}

/** One line of the people who are connected. */
export interface ListedConnection {
  readonly userId: string;
  readonly email: string;
  readonly createdAt: EpochSeconds;
  readonly renewedAt: EpochSeconds;
  readonly failedAt: EpochSeconds | undefined;
}

/** Who is connected, and ending it. */
export interface UpstreamConnectionDirectory {
  list(accessId: string): Promise<ListedConnection[]>;

  /** From now on the tokens are nobody's; `false` when there was no such connection. */
  end(accessId: string, userId: string): Promise<boolean>;
}

/** A connection that ended, whose tokens the authorization server has not been told of yet. */
export interface EndedConnection {
  readonly id: string;
  readonly accessId: string;
  readonly serverId: string;
  readonly userId: string;
  /** `undefined` once it is gone. */
  readonly organization: string | undefined;
  /** The server's name; its id, once it is gone. */
  readonly server: string;
  readonly sealedTokens: string;
  readonly attempts: number;
}

/** What ended, by whatever way: disconnected, a person, membership or server removed, an access replaced. */
export interface EndedConnectionStore {
  due(now: EpochSeconds, limit: number): Promise<EndedConnection[]>;

  /** `true` for the first of many processes to try the next time; another try is due at `at`. */
  postpone(
    at: { readonly id: string; readonly attempts: number },
    next: EpochSeconds,
  ): Promise<boolean>;

  remove(id: string): Promise<void>;

  /** Forgets accesses that no server has, no connection needs and no authorization server is to be told of. */
  forgetAccesses(): Promise<void>;
}

/** What tokens are sealed for: no other server's, no other authorization server's, nobody else's. */
export function tokensPurpose(of: {
  readonly serverId: string;
  readonly accessId: string;
  readonly userId: string;
}): string {
  return `upstream tokens ${of.serverId} ${of.accessId} ${of.userId}`;
}
