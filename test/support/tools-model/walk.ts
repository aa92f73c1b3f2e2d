import * as fc from 'fast-check';

import type { ServerEra } from './model-server.ts';
import { action } from './steps.ts';
import { openWorld } from './world.ts';

export interface Walk {
  readonly seed: number;
  readonly steps: number;
  /** The era that the MCP server speaks. */
  readonly era: ServerEra;
}

/** How long, after a failure, to look for shorter walks that fail, too. */
const shrinkingMs = 10_000;

/**
 * Takes `steps` random steps with rules, groups, reviews, corrections, selections and the server itself. After each, everything that
 * decides or shows the rights of a caller must agree with the reference: lists and the announcements of their changes, calls,
 * completion, subscriptions, the console, the API, the page and the command. The callers take turns in the ways in which they ask.
 *
 * @returns how many answers were compared, and the shortest series of steps found after which something disagrees
 */
export async function walkThroughRights({
  seed,
  steps,
  era,
}: Walk): Promise<{ compared: number; problem: string }> {
  let compared = 0;
  let failedAt = Infinity;
  // A step can at most shrink to one that is left out.
  const step = fc.option(action, { freq: 10_000 });
  const walk = fc.asyncProperty(
    fc.array(step, { minLength: steps, maxLength: steps, size: 'max' }),
    async (all) => {
      if (performance.now() - failedAt > shrinkingMs) return;
      await using world = await openWorld(era);
      for (const [turn, one] of all.entries()) {
        if (!one) continue;
        try {
          compared += await world.take(one, turn);
        } catch (error) {
          failedAt = Math.min(failedAt, performance.now());
          throw new Error(`at step ${turn + 1}, ${JSON.stringify(one)}`, { cause: error });
        }
      }
    },
  );
  const { failed, counterexample, errorInstance } = await fc.check(walk, { seed, numRuns: 1 });
  if (!failed) return { compared, problem: '' };
  const path = counterexample?.[0].flatMap((one) => (one ? [JSON.stringify(one)] : []));
  return { compared, problem: `${wordsOf(errorInstance)}\nafter\n${path?.join('\n')}` };
}

function wordsOf(error: unknown): string {
  return error instanceof Error && error.cause !== undefined
    ? `${error.message}: ${wordsOf(error.cause)}`
    : String(error);
}
