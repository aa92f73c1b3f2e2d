import type { RunningProxy } from './running-proxy.ts';

/**
 * What is said over the socket, a JSON object a line. Whoever watches says so first:
 *
 *     {"ask":"watch"}          answered by {"proxy":{…}} now and after each change
 *     {"ask":"sign_in_done"}   somebody signed in elsewhere: read the keychain again
 *     {"ask":"reconnect"}      try the server now
 *
 * The last two are answered by `{"heard":"…"}` once that was done.
 */
export const proxyRequests = ['sign_in_done', 'reconnect'] as const;
export type ProxyRequest = (typeof proxyRequests)[number];

export type Asked = ProxyRequest | 'watch';
export type Said = { proxy: RunningProxy } | { heard: ProxyRequest };

/** What a watcher's line asks for; `undefined` when it is none of ours. */
export function readAsked(line: string): Asked | undefined {
  const ask = objectOf(line)['ask'];
  return ask === 'watch' ? ask : proxyRequests.find((request) => request === ask);
}

/** What a proxy's line says; `undefined` when it is none of ours. */
export function readSaid(line: string): Said | undefined {
  const { proxy, heard } = objectOf(line);
  const request = proxyRequests.find((one) => one === heard);
  if (request) return { heard: request };
  return isRunningProxy(proxy) ? { proxy } : undefined;
}

function objectOf(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** What has no proper shape is not shown; only this user can have written it. */
function isRunningProxy(value: unknown): value is RunningProxy {
  if (!isObject(value)) return false;
  const { pid, startedAt, sinceAt, name, url, state, version } = value;
  const { scopes, assistant, lastCall, expiresAt } = value;
  return (
    [pid, startedAt, sinceAt].every((one) => typeof one === 'number') &&
    [name, url, state, version].every((one) => typeof one === 'string') &&
    (scopes === undefined || (Array.isArray(scopes) && scopes.every(isText))) &&
    (assistant === undefined || (isObject(assistant) && isText(assistant['name']))) &&
    (lastCall === undefined || (isObject(lastCall) && isText(lastCall['method']))) &&
    (expiresAt === undefined || typeof expiresAt === 'number')
  );
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
