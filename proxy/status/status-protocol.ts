import { isObject, isText, parseObject } from 'latchkey-mcp/json-value';
import type { Socket } from 'node:net';
import { callOutcomes, type LastCall, type RunningProxy } from './running-proxy.ts';

/**
 * The protocol of the status socket: one JSON object per line. A watcher sends requests:
 *
 *     {"ask":"watch"}          answered by {"proxy":{…}} now and after each change
 *     {"ask":"sign_in_done"}   a person signed in with another process: read the keychain again
 *     {"ask":"reconnect"}      try the server now
 *
 * The proxy acknowledges the last two with `{"acknowledged":"…"}` once they are done.
 */
const proxyRequests = ['sign_in_done', 'reconnect'] as const;
export type ProxyRequest = (typeof proxyRequests)[number];

export type StatusRequest = ProxyRequest | 'watch';
export type StatusEvent = { proxy: RunningProxy } | { acknowledged: ProxyRequest };

/** The request in a watcher's line; `undefined` for anything else. */
export function parseRequest(line: string): StatusRequest | undefined {
  const ask = parseObject(line)?.['ask'];
  return ask === 'watch' ? ask : proxyRequests.find((request) => request === ask);
}

/** The event in a proxy's line; `undefined` for anything else. */
export function parseEvent(line: string): StatusEvent | undefined {
  const { proxy, acknowledged } = parseObject(line) ?? {};
  const request = proxyRequests.find((one) => one === acknowledged);
  if (request) return { acknowledged: request };
  if (!isRunningProxy(proxy)) return undefined;
  const { lastCall, ...others } = proxy;
  return { proxy: isLastCall(lastCall) ? proxy : others };
}

/** A proxy of a later version may know outcomes that this one does not. */
function isLastCall(value: unknown): value is LastCall {
  if (!isObject(value)) return false;
  const { at, method, outcome } = value;
  return (
    Number.isSafeInteger(at) && isText(method) && callOutcomes.some((known) => known === outcome)
  );
}

/** Only this user can have written the value, so checking its shape is enough. */
function isRunningProxy(value: unknown): value is RunningProxy {
  if (!isObject(value)) return false;
  const { pid, startedAt, sinceAt, name, url, state, version } = value;
  const { account, scopes, assistant, expiresAt } = value;
  return (
    [pid, startedAt, sinceAt].every((one) => Number.isSafeInteger(one)) &&
    [name, url, state, version].every((one) => typeof one === 'string') &&
    (scopes === undefined || (Array.isArray(scopes) && scopes.every(isText))) &&
    (assistant === undefined || (isObject(assistant) && isText(assistant['name']))) &&
    (account === undefined || isText(account)) &&
    (expiresAt === undefined || Number.isSafeInteger(expiresAt))
  );
}

/** Calls `take` with each line that arrives; a line over the limit closes the connection. */
export function eachLine(socket: Socket, longestBytes: number, take: (line: string) => void): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > longestBytes) return void socket.destroy();
    lines.forEach(take);
  });
}
