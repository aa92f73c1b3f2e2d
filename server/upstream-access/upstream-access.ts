import type { EpochSeconds } from '#clock/clock';
import type { FixedHeader } from '#organizations/server-record';
import type { ClientRegistration } from './client-registration.ts';
import type { Discovered } from './discovered.ts';

/** How an upstream's authorization server gives us tokens: one for all callers, or one for each person. */
export type UpstreamAccessKind = 'client_credentials' | 'authorization_code';

/** What an HTTP upstream wants of us before it answers: a token of its own authorization server. */
export interface UpstreamAccess extends Omit<Discovered, 'resource'> {
  readonly id: string;
  readonly serverId: string;
  readonly kind: UpstreamAccessKind;
  /** The URL of the upstream, the only one that its tokens are ever sent to. */
  readonly url: string;
  /**
   * The upstream's name for itself, repeated byte for byte in every request for a token, so that the token is good there
   * alone. `undefined` where an administrator let it be left out, for an authorization server that refuses it: never
   * tried by itself, as whoever answers `invalid_target` would get us a token that other servers take too.
   *
   * RFC 8707 §2, §3
   */
  readonly resource: string | undefined;
  /** Whom its authorization server knows us as. */
  readonly clientId: string;
  /** Sealed for `secretPurpose`; `undefined` for a client that has none. */
  readonly sealedClientSecret: string | undefined;
  /** What is asked for; none leaves it to the authorization server. */
  readonly scopes: readonly string[];
  /** What the operator named, `host:port`, which need not be on the public internet. */
  readonly vouchedHosts: readonly string[];
  readonly createdAt: EpochSeconds;
  /** Where we registered ourselves, if that can be undone. */
  readonly registration?: ClientRegistration | undefined;
}

/** What the upstreams of servers want of us. */
export interface UpstreamAccessStore {
  byId(id: string): Promise<UpstreamAccess | undefined>;

  /** Whether a server's calls are asked for by it now. */
  isInForce(id: string): Promise<boolean>;

  /**
   * Counts for its server from the next call on. One with another id takes the place of what was there, whose
   * connections end with it. `false` when the server's calls do not go to its `url`.
   */
  set(access: UpstreamAccess): Promise<boolean>;

  /** The server's upstream wants nothing any more; its connections end. */
  clear(serverId: string): Promise<void>;

  /** Whether the server's calls say who is calling. */
  setTellsCallers(serverId: string, tells: boolean): Promise<void>;

  /**
   * The server's upstream has just refused the present values of these headers and taken the previous ones. Written
   * once a minute at most, and not for headers that were changed meanwhile.
   */
  noteHeadersRefused(
    serverId: string,
    headers: readonly FixedHeader[],
    now: EpochSeconds,
  ): Promise<void>;
}

/** What a client secret is sealed for: no other server's, and no other authorization server's. */
export function secretPurpose({ serverId, id }: Pick<UpstreamAccess, 'serverId' | 'id'>): string {
  return `upstream client secret ${serverId} ${id}`;
}
