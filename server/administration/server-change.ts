import type { ServerChange } from '#organizations/server-directory';
import { changedLimits, type LimitsChange } from '#organizations/server-limits';
import type { ServerRecord } from '#organizations/server-record';

/** Settings as they are given: what is not there stays. */
export interface GivenSettings {
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly instructions?: string | undefined;
  readonly hiddenTools?: readonly string[] | undefined;
  readonly limits?: LimitsChange | undefined;
}

/** What of a server changes by settings that were given. */
export function settingsChange(now: ServerRecord, given: GivenSettings): ServerChange {
  const { title, description, instructions, hiddenTools, limits } = given;
  return {
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(instructions !== undefined && { instructions }),
    ...(hiddenTools && { hiddenTools }),
    ...(limits && { limits: changedLimits(now.limits, limits) ?? null }),
  };
}
