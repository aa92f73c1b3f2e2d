import { isPlainlyForbidden, type OutboundGuard } from '#outbound/checked-addresses';
import type { FixedHeader } from '#organizations/server-record';
import type { Sealing } from '#people/sealing';
import { registrationPurpose } from './client-registration.ts';
import { discover, type DiscoverWish, type Found } from './discover.ts';
import { headerPurpose, openedHeaders, type HeaderPlace } from './fixed-headers.ts';
import { introduceClient, type IntroducedClient, type Introduction } from './introduce-client.ts';
import { secretPurpose, type UpstreamAccess } from './upstream-access.ts';
import { UpstreamAccessError } from './upstream-access-error.ts';
import { accessFetch } from './upstream-authorizations.ts';

/** What setting up the access to an upstream takes besides the stores. */
export interface UpstreamSetup {
  /** Whether a URL leads, by its own words, where this server does not go. */
  isForbidden(url: URL): boolean;

  /** @throws {UpstreamAccessError} `unusable`, `unreachable`, `forbidden` */
  discover(wish: DiscoverWish, vouchedHosts: readonly string[]): Promise<Found>;

  /** Makes us known where nobody registered us. @throws {UpstreamAccessError} the same */
  introduce(client: Introduction, vouchedHosts: readonly string[]): Promise<IntroducedClient>;

  sealSecret(access: Pick<UpstreamAccess, 'serverId' | 'id'>, clientSecret: string): string;

  sealRegistration(
    access: Pick<UpstreamAccess, 'serverId' | 'clientId'>,
    accessToken: string,
  ): string;

  sealHeader(place: HeaderPlace, value: string): string;

  /** The present values of an upstream's fixed headers. */
  openHeaders(
    at: Omit<HeaderPlace, 'name'>,
    headers: readonly FixedHeader[],
  ): Readonly<Record<string, string>>;
}

export function upstreamSetup({
  base,
  sealing,
  guard,
}: {
  /** Our public URL; a command may not know it. */
  base: string | undefined;
  sealing: Sealing;
  guard: OutboundGuard;
}): UpstreamSetup {
  return {
    isForbidden: (url) => isPlainlyForbidden(url, guard),
    discover: (wish, vouchedHosts) => discover(wish, accessFetch(guard, vouchedHosts)),
    async introduce(client, vouchedHosts) {
      if (base === undefined) {
        const words = 'nobody says where people come back to: give a client id, or --base-url';
        throw new UpstreamAccessError('unusable', words);
      }
      return introduceClient(client, { base, ask: accessFetch(guard, vouchedHosts) });
    },
    sealSecret: (access, clientSecret) => sealing.seal(secretPurpose(access), clientSecret),
    sealRegistration: (access, accessToken) =>
      sealing.seal(registrationPurpose(access), accessToken),
    sealHeader: (place, value) => sealing.seal(headerPurpose(place), value),
    openHeaders: (at, headers) => openedHeaders(headers, at, sealing),
  };
}
