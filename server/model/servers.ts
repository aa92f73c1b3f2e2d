import type { EpochSeconds } from './clock.ts';
import type { ServerLimits } from './server-limits.ts';
import type { UpstreamKind } from './upstream-kinds.ts';

/** An MCP server of an organization. Its endpoint is `POST /mcp/{organization}/{server}`. */
export interface ServerRecord {
  readonly id: string;
  readonly organization: string;
  readonly name: string;
  readonly upstream: UpstreamKind;
  /** The display name. Default: `name`. */
  readonly title?: string;
  readonly description?: string;
  /** Instructions for assistants, sent before those of the upstream. */
  readonly instructions?: string;
  /** Tools that are neither listed nor callable. */
  readonly hiddenTools: readonly string[];
  /** What happens when a tool differs from its accepted definition: `flag` shows that to people, `withhold` also closes the tool. */
  readonly changedTools: 'flag' | 'withhold';
  /** The tools that are closed because they changed. */
  readonly withheldTools: readonly string[];
  /** The only tools that can be called, of a server that lists as many as are remembered. */
  readonly openTools?: readonly string[] | undefined;
  readonly limits?: ServerLimits;
  /** The number of changes so far; set when the record was read for display or for a change. */
  readonly revision?: number;
  readonly createdAt: EpochSeconds;
  /** When it was disabled. */
  readonly disabledAt?: EpochSeconds;
}
