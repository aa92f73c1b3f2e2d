import type { ChangeStore } from './change-store.ts';

const mostKept = 50;

/**
 * Remembers what went into a page until anything is written, by whatever process. Whether something was is looked at
 * before each answer, so that nobody is shown what the database would not say at that moment. Who may see it is asked
 * before, at each request; `key` names everything else that it hangs on, the time among it.
 */
export function recalledWork({ written }: Pick<ChangeStore, 'written'>) {
  const kept = new Map<string, unknown>();
  let asOf = '';

  return async <Work extends object>(
    key: readonly unknown[],
    work: () => Promise<Work>,
  ): Promise<Work> => {
    const now = written();
    if (now !== asOf || kept.size >= mostKept) {
      kept.clear();
      asOf = now;
    }
    const name = JSON.stringify(key);
    // What is kept under a key came of the same work.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    if (kept.has(name)) return kept.get(name) as Work;
    const done = await work();
    if (asOf === now) kept.set(name, done);
    return done;
  };
}
