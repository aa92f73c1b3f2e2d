import { hostAndPort } from '#outbound/checked-addresses';

/**
 * What is wrong with the URL of a webhook, in words that go behind the field's name. Plain http is for hosts that the
 * operator named, as only those are inside this network.
 */
export function webhookUrlProblem(
  text: string,
  allowedHosts: readonly string[],
): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'is not an https URL';
  if (url.username || url.password || url.hash) return 'may hold no user, password or fragment';
  const isNamed = allowedHosts.includes(url.hostname) || allowedHosts.includes(hostAndPort(url));
  return url.protocol === 'https:' || isNamed ? undefined : 'is not an https URL';
}
