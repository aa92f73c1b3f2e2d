import type { OutboundGuard } from '#outbound/checked-addresses';
import type { Sealing } from '#people/sealing';
import { discover, type DiscoverWish, type Found } from './discover.ts';
import { secretPurpose, type UpstreamAccess } from './upstream-access.ts';
import { accessFetch } from './upstream-authorizations.ts';

/** What setting up the access to an upstream takes besides the stores. */
export interface UpstreamSetup {
  /** @throws {UpstreamAccessError} `unusable`, `unreachable`, `forbidden` */
  discover(wish: DiscoverWish, vouchedHosts: readonly string[]): Promise<Found>;

  sealSecret(access: Pick<UpstreamAccess, 'serverId' | 'id'>, clientSecret: string): string;
}

export function upstreamSetup({
  sealing,
  guard,
}: {
  sealing: Pick<Sealing, 'seal'>;
  guard: OutboundGuard;
}): UpstreamSetup {
  return {
    discover: (wish, vouchedHosts) => discover(wish, accessFetch(guard, vouchedHosts)),
    sealSecret: (access, clientSecret) => sealing.seal(secretPurpose(access), clientSecret),
  };
}
