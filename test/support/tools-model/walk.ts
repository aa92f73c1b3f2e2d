import * as fc from 'fast-check';

import type { ServerEra } from './model-server.ts';
import { action } from './steps.ts';
import { openWorld } from './world.ts';

export interface Walk {
  readonly seed: number;
  readonly steps: number;
  /** What the MCP server speaks. */
  readonly era: ServerEra;
}

/** After a failure, how long shorter walks are looked for that fail, too. */
const shrinkingMs = 10_000;

/**
 * Takes so many random steps with rules, groups, reviews, corrections, selections and the server itself. After each, all that decides or
 * says what a caller may use must agree with the reference: lists and the announcements that they changed, calls, completion,
 * subscriptions, the console, the API, the page and the command. Each caller asks in another era, and they take turns.
 *
 * @returns how many answers were compared, and the fewest steps that were found after which something disagrees
 */
export async function walkThroughRights({
  seed,
  steps,
  era,
}: Walk): Promise<{ compared: number; problem: string }> {
  let compared = 0;
  let failedAt = Infinity;
  // A step that is left out is the least that a step can shrink to.
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
