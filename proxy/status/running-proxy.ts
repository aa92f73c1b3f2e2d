import type { EpochSeconds } from '#clock/clock';

/**
 * `connecting`: the server has yet to answer. `needs_sign_in`: only a person can help. `trouble`: the
 * server answers, and refuses. `offline`: it cannot be reached, and is tried again.
 */
export const proxyStates = ['connecting', 'ready', 'needs_sign_in', 'trouble', 'offline'] as const;
export type ProxyState = (typeof proxyStates)[number];

/** How a request ended: `failed` with a JSON-RPC error, `tool_error` as a tool says it in its result. */
export const callOutcomes = ['ok', 'tool_error', 'failed'] as const;

export type LastCall = {
  at: EpochSeconds;
  /** The JSON-RPC method; never a parameter of it. */
  method: string;
  outcome: (typeof callOutcomes)[number];
  durationMs: number;
};

/** What one running proxy tells of itself. Nothing of it is secret. */
export type RunningProxy = {
  pid: number;
  startedAt: EpochSeconds;
  /** Of this program. */
  version: string;
  /** What the person calls the connection; the URL where it has no name. */
  name: string;
  /** Without a query, as that may hold a key. */
  url: string;
  /** Whose sign-in it is, where one URL has several. */
  account?: string;
  /** What the assistant calls itself in its handshake. */
  assistant?: { name: string; version?: string };
  state: ProxyState;
  /** Since when that state lasts. */
  sinceAt: EpochSeconds;
  /** Why, in words, where it is neither `ready` nor `connecting`. */
  reason?: string;
  scopes?: readonly string[];
  /** When the access token ends. */
  expiresAt?: EpochSeconds;
  lastCall?: LastCall;
  /** Which protocol the assistant speaks. */
  era?: 'legacy' | 'modern';
};
