import { hostAndPort } from '#outbound/checked-addresses';
import type { UpstreamAccess } from './upstream-access.ts';

/**
 * What the operator vouched for, each with its port. What was kept without one opened every port of the host: it is
 * those that the operator named it by, of the upstream and of its authorization server.
 */
export function vouchedHosts(
  kept: readonly string[],
  { url, metadata }: Pick<UpstreamAccess, 'url' | 'metadata'>,
): string[] {
  const named = [url, metadata.issuer].map((one) => new URL(one));
  const all = kept.flatMap((host) =>
    /:\d+$/.test(host)
      ? [host]
      : named.filter(({ hostname }) => hostname === host).map((one) => hostAndPort(one)),
  );
  return [...new Set(all)];
}
