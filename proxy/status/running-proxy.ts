import type { EpochSeconds } from '#clock/clock';

/**
 * `connecting`: the server has not answered yet. `needs_sign_in`: a person has to sign in. `trouble`: the server
 * refuses requests. `offline`: the server cannot be reached, and the proxy tries again.
 */
const proxyStates = ['connecting', 'ready', 'needs_sign_in', 'trouble', 'offline'] as const;
export type ProxyState = (typeof proxyStates)[number];

/** How a request ended. `failed`: with a JSON-RPC error or without an answer. `tool_error`: with an error in the result of a tool. */
export const callOutcomes = ['ok', 'tool_error', 'failed'] as const;

export type LastCall = {
  at: EpochSeconds;
  /** The JSON-RPC method; never a parameter of it. */
  method: string;
  outcome: (typeof callOutcomes)[number];
  durationMs: number;
};

/** The status of one running proxy, without any secret. */
export type RunningProxy = {
  pid: number;
  startedAt: EpochSeconds;
  /** The version of this program. */
  version: string;
  /** The name of the connection; the URL where it has none. */
  name: string;
  /** Without a query, which may contain a key. */
  url: string;
  /** Distinguishes several sign-ins to one URL. */
  account?: string;
  /** `clientInfo` of the assistant. */
  assistant?: { name: string; version?: string };
  state: ProxyState;
  /** When that state began. */
  sinceAt: EpochSeconds;
  /** Set if the state is neither `ready` nor `connecting`. */
  reason?: string;
  scopes?: readonly string[];
  /** When the access token expires. */
  expiresAt?: EpochSeconds;
  lastCall?: LastCall;
  /** Which protocol the assistant speaks. */
  era?: 'legacy' | 'modern';
};

/** A server's URL without its query, which may contain a key. */
export function displayUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + (pathname === '/' ? '' : pathname);
}

/** Whether a proxy uses that server and account, so that a sign-in there also applies to the proxy. */
export function isProxyOf(
  proxy: RunningProxy,
  { url, account }: { url: string; account?: string },
): boolean {
  return proxy.url === displayUrl(url) && proxy.account === account;
}
