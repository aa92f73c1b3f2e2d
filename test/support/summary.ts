import { relative } from 'node:path';

import { z } from 'zod';
import { requirements, type Requirement } from './requirements.ts';

/** The parts of vitest's JSON report that are read. */
export const reportSchema = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      status: z.enum(['passed', 'failed']),
      startTime: z.number(),
      endTime: z.number(),
      assertionResults: z.array(
        z.object({
          ancestorTitles: z.array(z.string()),
          status: z.string(),
          meta: z.object({ missing: z.array(z.string()).optional() }),
        }),
      ),
    }),
  ),
});

export type Report = z.infer<typeof reportSchema>;

/** The note of `processor-time.ts` about a file; one for each level that the file is part of. */
export const timeSchema = z.object({ file: z.string(), seconds: z.number() });

export type FileTime = z.infer<typeof timeSchema>;

export interface Summary {
  /** The slowest files, those with the most processor time, one line a missing requirement, failures outside the tests; last the totals. */
  readonly lines: readonly string[];
  readonly exitCode: 0 | 1;
}

const slowestFiles = 10;

/**
 * The end of `npm test`: the ten slowest files, the ten that take the most processor time, what this machine could not test and
 * why, then the totals.
 *
 *     slowest files:
 *       12.3 s  test/e2e/dashboard/story.test.ts
 *     processor time, 540 s in all, most for:
 *       20.1 s  test/e2e/dashboard/story.test.ts
 *     skipped: the OS keychain (3 tests): a real keychain needs …; apt-get install gnome-keyring dbus
 *     120 passed, 0 failed, 3 skipped
 *
 * `report` is `undefined` when vitest wrote none. A file that could not be loaded, a vitest that fails without a failed
 * test or passes without a test, and each line of `left` (what the run left behind) count as one failure each.
 */
export function summary(
  report: Report | undefined,
  vitestExitCode: number | null,
  left: readonly string[] = [],
  times: readonly FileTime[] = [],
): Summary {
  const files = report?.testResults ?? [];
  const tests = files.flatMap((file) => file.assertionResults);
  const count = (wanted: string) => tests.filter(({ status }) => status === wanted).length;
  const passed = count('passed');
  const skipped = tests.length - passed - count('failed');
  const unloadable = files.filter(
    (file) =>
      file.status === 'failed' && !file.assertionResults.some(({ status }) => status === 'failed'),
  );
  const failedTests = count('failed') + unloadable.length;
  const trouble = failedTests > 0 ? undefined : vitestTrouble(report, passed, vitestExitCode);
  const failed = failedTests + (trouble ? 1 : 0) + left.length;

  const totals = [`${passed} passed`, `${failed} failed`];
  if (skipped > 0) totals.push(`${skipped} skipped`);
  return {
    lines: [
      ...slowestLines(files),
      ...busiestLines(times),
      ...missingLines(tests),
      ...unloadable.map(({ name }) => `failed outside its tests: ${name}`),
      ...(trouble ? [`failed: ${trouble}`] : []),
      ...left.map((line) => `failed: ${line}`),
      totals.join(', '),
    ],
    exitCode: failed > 0 ? 1 : 0,
  };
}

function slowestLines(files: Report['testResults']): string[] {
  const timed = files.map(({ name, startTime, endTime }) => ({
    name: relative(process.cwd(), name),
    seconds: (endTime - startTime) / 1000,
  }));
  const slowest = timed.toSorted((a, b) => b.seconds - a.seconds).slice(0, slowestFiles);
  if (slowest.length === 0) return [];
  return [
    'slowest files:',
    ...slowest.map(({ name, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${name}`),
  ];
}

function busiestLines(times: readonly FileTime[]): string[] {
  if (times.length === 0) return [];
  const total = times.reduce((sum, { seconds }) => sum + seconds, 0);
  const busiest = times.toSorted((a, b) => b.seconds - a.seconds).slice(0, slowestFiles);
  return [
    `processor time, ${total.toFixed(0)} s in all, most for:`,
    ...busiest.map(
      ({ file, seconds }) =>
        `${seconds.toFixed(1).padStart(7)} s  ${relative(process.cwd(), file)}`,
    ),
  ];
}

function vitestTrouble(
  report: Report | undefined,
  passed: number,
  vitestExitCode: number | null,
): string | undefined {
  if (!report) return 'vitest ended without a report';
  if (vitestExitCode !== 0) return `vitest ended with ${vitestExitCode ?? 'a signal'}, see above`;
  if (passed === 0) return 'no test ran';
  return undefined;
}

function missingLines(tests: Report['testResults'][number]['assertionResults']): string[] {
  return Object.entries<Requirement>(requirements).flatMap(([name, { reason, install }]) => {
    const without = tests.filter(({ meta }) => meta.missing?.includes(name));
    if (without.length === 0) return [];
    const suites = [...new Set(without.map(({ ancestorTitles }) => suiteTitle(ancestorTitles)))];
    const tally = `${without.length} ${without.length === 1 ? 'test' : 'tests'}`;
    return [`skipped: ${suites.join(', ')} (${tally}): ${reason}; ${install}`];
  });
}

/** The first title is the file's, and empty. */
function suiteTitle(ancestorTitles: readonly string[]): string {
  return ancestorTitles.find((title) => title !== '') ?? 'tests';
}
