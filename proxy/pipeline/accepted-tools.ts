import type { EpochSeconds } from '#clock/clock';
import { toolParts, type ToolFingerprint, type ToolPart } from './tool-fingerprint.ts';

/** One tool as it was accepted and, where that is something else, as it was last seen. */
export type AcceptedTool = {
  accepted: ToolFingerprint;
  acceptedAt: EpochSeconds;
  seen?: ToolFingerprint;
  changedAt?: EpochSeconds;
};

/** By name. */
export type AcceptedTools = ReadonlyMap<string, AcceptedTool>;

/** Keeps what was accepted of the tools of one connection; nothing secret. */
export interface AcceptedToolStore {
  /**
   * Empty when nothing was kept yet.
   *
   * @throws {Error} when what was kept cannot be read
   */
  read(): Promise<AcceptedTools>;

  /** Replaces all. */
  write(tools: AcceptedTools): Promise<void>;
}

/** Which parts of a tool are other than accepted. */
export function changedParts({ accepted, seen }: AcceptedTool): ToolPart[] {
  return seen ? toolParts.filter((part) => seen[part] !== accepted[part]) : [];
}

/**
 * `tools` after a listing. A tool never seen before is accepted as it is; one that was put back to
 * what it was is no longer changed. The same map when there is nothing new.
 */
export function afterListing(
  tools: AcceptedTools,
  listed: ReadonlyMap<string, ToolFingerprint>,
  now: EpochSeconds,
): AcceptedTools {
  const next = new Map(tools);
  let moved = false;
  for (const [name, seen] of listed) {
    const known = tools.get(name);
    if (known && isSame(known.seen ?? known.accepted, seen)) continue;
    moved = true;
    const { accepted, acceptedAt } = known ?? { accepted: seen, acceptedAt: now };
    const changed = !isSame(accepted, seen);
    next.set(name, { accepted, acceptedAt, ...(changed && { seen, changedAt: now }) });
  }
  return moved ? next : tools;
}

/** `tools` once a person has accepted those called `names` as they were last seen. */
export function afterAcceptance(
  tools: AcceptedTools,
  names: readonly string[],
  now: EpochSeconds,
): AcceptedTools {
  const next = new Map(tools);
  for (const name of names) {
    const seen = tools.get(name)?.seen;
    if (seen) next.set(name, { accepted: seen, acceptedAt: now });
  }
  return next;
}

function isSame(one: ToolFingerprint, other: ToolFingerprint): boolean {
  return toolParts.every((part) => one[part] === other[part]);
}
