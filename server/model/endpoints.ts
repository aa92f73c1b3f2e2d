import type { EpochSeconds } from './clock.ts';
import type { ServerLimits } from './server-limits.ts';
import type { UpstreamKind } from './upstream-kinds.ts';

/**
 * An MCP server that Latchkey calls, with what was decided about its tools. Sessions, credentials, health and pinned tools
 * belong to it, whatever the endpoint through which it is called.
 */
export interface Target {
  readonly id: string;
  readonly organization: string;
  /** The name of the server whose target it is. An agent and the operator's configuration know it by this name. */
  readonly name: string;
  readonly upstream: UpstreamKind;
  /** Tools that are neither listed nor callable. */
  readonly hiddenTools: readonly string[];
  /** What happens when a tool differs from its accepted definition: `flag` shows that to people, `withhold` also closes the tool. */
  readonly changedTools: 'flag' | 'withhold';
  /** The tools that are closed because they changed. */
  readonly withheldTools: readonly string[];
  /** The only tools that can be called, of a server that lists as many as are remembered. */
  readonly openTools?: readonly string[] | undefined;
}

/**
 * What callers address: `POST /mcp/{organization}/{name}`. Keys, clients, grants, groups and limits belong to it, and it is the
 * audience of access tokens.
 */
export interface Endpoint {
  readonly id: string;
  readonly organization: string;
  readonly name: string;
  /** The display name. Default: `name`. */
  readonly title?: string;
  readonly description?: string;
  /** Instructions for assistants, sent before those of the upstream. */
  readonly instructions?: string;
  readonly limits?: ServerLimits;
  /** The number of changes so far; set when the record was read for display or for a change. */
  readonly revision?: number;
  readonly createdAt: EpochSeconds;
  /** When it was disabled. */
  readonly disabledAt?: EpochSeconds;
}

/** An MCP server of an organization: an endpoint with one target. */
export interface ServerRecord extends Endpoint {
  readonly target: Target;
}
