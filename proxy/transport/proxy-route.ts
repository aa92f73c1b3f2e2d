import { HttpError } from './http-error.ts';
import type { NetworkSettings } from './network-settings.ts';
import { proxyVariables } from './names-proxy.ts';
import { proxyExemption } from './proxy-exemption.ts';
import { isLoopback } from './web-url.ts';

/** A proxy on the way to somewhere. */
export type ProxyRoute = {
  /** With its credentials, so never for a message. */
  secretUrl: URL;
  /** `http://proxy.example:3128`, for messages. */
  origin: string;
  /** Where it was named: `HTTPS_PROXY`. */
  setting: string;
};

/**
 * The proxy on the way to `url`; `undefined` for the direct way. Small letters win, as they do in
 * curl. This machine itself is reached directly, unless `--proxy` asks otherwise.
 *
 * @throws {HttpError} `proxy` when what is named is no proxy that we can use
 */
export function proxyRoute(url: URL, { env, proxy }: NetworkSettings): ProxyRoute | undefined {
  if (proxy === 'none') return undefined;
  if (proxyExemption(env['no_proxy'] || env['NO_PROXY'] || '')(url)) return undefined;
  if (proxy !== undefined) return read(proxy, '--proxy');
  if (isLoopback(url)) return undefined;
  const names = proxyVariables[url.protocol === 'https:' ? 'https:' : 'http:'];
  const setting = names.find((name) => env[name]);
  return setting === undefined ? undefined : read(env[setting] ?? '', setting);
}

function read(text: string, setting: string): ProxyRoute {
  const secretUrl = URL.parse(text.includes('://') ? text : `http://${text}`);
  if (!secretUrl?.hostname)
    throw new HttpError('proxy', `${setting} is not the URL of a proxy`, {
      remedy: `write ${setting} as http://HOST:PORT`,
    });
  const { protocol, host } = secretUrl;
  if (protocol !== 'http:' && protocol !== 'https:')
    throw new HttpError('proxy', `${setting} names a proxy that speaks ${protocol.slice(0, -1)}`, {
      remedy: `name one that speaks HTTP CONNECT, as http://HOST:PORT`,
    });
  return { secretUrl, origin: `${protocol}//${host}`, setting };
}
