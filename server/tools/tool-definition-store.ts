import type { EpochSeconds } from '#clock/clock';
import type { ToolDefinition } from './tool-definition.ts';

/** A tool as it was accepted and, where that is something else, as its server last told it. */
export interface KnownTool {
  readonly name: string;
  readonly accepted: Omit<ToolDefinition, 'name'>;
  readonly acceptedAt: EpochSeconds;
  readonly seen?: Omit<ToolDefinition, 'name'>;
  readonly changedAt?: EpochSeconds;
}

/** Most tools of one server that are kept; of more, the first. */
export const mostKnownTools = 1_000;

/** What is known of the tools of servers. Holds no secret. */
export interface ToolDefinitionStore {
  /** By name. */
  of(serverId: string): Promise<KnownTool[]>;

  /**
   * Keeps what a server has just told. A tool never seen before is accepted as it is; one that was put back
   * to what it was is no longer changed. One transaction, so that processes which see the same list at
   * once come to the same.
   *
   * @returns `changed`: those that are other than accepted, and were not so before, or not like this; `open`: the
   *   names of all that were listed as they were accepted
   */
  note(
    serverId: string,
    listed: readonly ToolDefinition[],
    now: EpochSeconds,
  ): Promise<{ changed: ToolDefinition[]; open: string[] }>;

  /**
   * Accepts tools as they were last seen. A digest that is not the one last seen is left alone: what a
   * person accepts is what they read.
   *
   * @returns the names of those that were accepted
   */
  accept(
    serverId: string,
    seen: readonly Pick<ToolDefinition, 'name' | 'digest'>[],
    now: EpochSeconds,
  ): Promise<string[]>;
}
