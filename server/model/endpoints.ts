import type { ContentSettings } from './call-contents.ts';
import type { EpochSeconds } from './clock.ts';
import type { PersonKeyRule } from './person-keys.ts';
import type { ServerLimits } from './server-limits.ts';
import type { AccessRules, Offered } from './tool-rights.ts';
import type { UpstreamKind } from './upstream-kinds.ts';

/**
 * An MCP server that Latchkey calls, with the administrators' decisions about its tools. Sessions, credentials, health and pinned
 * tools belong to the target, whatever endpoint a call uses.
 */
export interface Target {
  readonly id: string;
  readonly organization: string;
  /** The name of the server that the target belongs to. Agents and the operator's configuration use this name. */
  readonly name: string;
  readonly upstream: UpstreamKind;
  /** Tools that are neither listed nor callable. */
  readonly hiddenTools: readonly string[];
  /** What happens when a tool differs from its accepted definition: `flag` shows that to people, `withhold` also closes the tool. */
  readonly changedTools: 'flag' | 'withhold';
  /** What happens when the upstream lists something for the first time: `offer` accepts it, `review` keeps it closed until it is accepted. */
  readonly newTools: 'offer' | 'review';
  readonly offered: Offered;
  /** The rules for who may use what the upstream offers; absent if there are none. */
  readonly rules?: AccessRules | undefined;
  /** The key that the upstream requires of each person; absent if it requires none. */
  readonly personKey?: PersonKeyRule | undefined;
  /** Whether and how arguments and results of its calls are stored. Default: not at all. */
  readonly contents?: ContentSettings | undefined;
}

/**
 * The endpoint that callers address: `POST /mcp/{organization}/{name}`. Keys, clients, grants, groups and limits belong to it, and it is the
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
  readonly disabledAt?: EpochSeconds;
}

/** An MCP server of an organization: an endpoint with one target. */
export interface ServerRecord extends Endpoint {
  readonly target: Target;
}
