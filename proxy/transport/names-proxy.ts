import type { NetworkSettings } from './network-settings.ts';

/** The environment's variables for each kind of URL; the first that is set counts. */
export const proxyVariables = {
  'https:': ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'],
  'http:': ['http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY'],
};

/** Whether any proxy has to be considered. Asked before each request, so it looks at names only. */
export function namesProxy({ env, proxy }: NetworkSettings): boolean {
  const names = Object.values(proxyVariables).flat();
  return proxy !== undefined || names.some((name) => env[name]);
}
