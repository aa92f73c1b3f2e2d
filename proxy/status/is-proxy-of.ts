import type { RunningProxy } from './running-proxy.ts';
import { shownUrl } from './shown-url.ts';

/** Whether a proxy reaches that server as that account: whoever signs in there signs in for it. */
export function isProxyOf(
  proxy: RunningProxy,
  { url, account }: { url: string; account?: string },
): boolean {
  return proxy.url === shownUrl(url) && proxy.account === account;
}
