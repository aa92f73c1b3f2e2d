import type { Clock } from '#clock/clock';
import type { Log } from '#log/log';
import {
  afterListing,
  changedParts,
  type AcceptedTools,
  type AcceptedToolStore,
} from './accepted-tools.ts';
import { toolFingerprint } from './tool-fingerprint.ts';
import type { ListedTool } from './tool-list.ts';

/** Knows which tools of a server are other than they were accepted. */
export interface ToolWatch {
  /** Takes a listing down, and resolves to the names that changed. It never rejects. */
  see(listing: readonly ListedTool[]): Promise<ReadonlySet<string>>;

  /** Whether a tool was other than accepted when last seen, also by another process. */
  isChanged(name: string): Promise<boolean>;

  /** Whether it is the first time that this is asked of a change. */
  isNews(name: string): boolean;
}

/**
 * When what was accepted cannot be read, a `strict` watch takes every tool for changed: nobody can know.
 * What cannot be written is known to this process alone.
 */
export function toolWatch({
  store,
  strict,
  clock,
  log,
}: {
  store: AcceptedToolStore;
  strict: boolean;
  clock: Clock;
  log: Log;
}): ToolWatch {
  const told = new Set<string>();
  let last: AcceptedTools | undefined;

  /** Others may have written since: another process, or the person who accepted something. */
  async function kept(): Promise<AcceptedTools | undefined> {
    try {
      const read = await store.read();
      return read.size === 0 && last ? last : read;
    } catch (error) {
      log.warn('accepted tools cannot be read', { reason: reasonOf(error) });
      return undefined;
    }
  }

  return {
    async see(listing) {
      const before = await kept();
      const names = listing.map(({ name }) => name);
      if (!before) return new Set(strict ? names : []);
      const prints = new Map(listing.map(({ name, tool }) => [name, toolFingerprint(tool)]));
      const after = afterListing(before, prints, clock.now());
      last = after;
      if (after !== before)
        await store.write(after).catch((error: unknown) => {
          log.warn('accepted tools cannot be kept', { reason: reasonOf(error) });
        });
      return new Set(names.filter((name) => isChanged(after, name)));
    },
    async isChanged(name) {
      const tools = await kept();
      return tools ? isChanged(tools, name) : strict;
    },
    isNews: (name) => !told.has(name) && Boolean(told.add(name)),
  };
}

function isChanged(tools: AcceptedTools, name: string): boolean {
  const tool = tools.get(name);
  return tool !== undefined && changedParts(tool).length > 0;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
