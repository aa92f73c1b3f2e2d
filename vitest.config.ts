import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Files that take longer than most, which their size does not show: each level begins with them, in this order, so that none is
 * left at its end while nothing else runs. The first of unit collects garbage again and again, which takes the longer the more files
 * its worker has run.
 */
const longest = [
  'unit/server/activity/recorded-texts',
  'unit/proxy/connections/crash-adding',
  'unit/proxy/connections/crash-renaming',
  'e2e/gateway/conformance',
  'e2e/proxy/download',
  'e2e/documentation/documented-commands',
  'e2e/dashboard/story',
  'e2e/gateway/tools-model',
  'e2e/proxy/packages',
  'e2e/nodes/shared-folder',
  'e2e/nodes/processes',
  'e2e/golden/recorded-output',
  'e2e/security/lockout',
  'e2e/proxy/sign-in-story',
  'e2e/proxy/single-executable',
  'e2e/proxy/setup',
  'e2e/gateway/collections',
  'e2e/dashboard/activity-questions',
  'e2e/nodes/shared-database',
  'e2e/dashboard/people',
  'e2e/security/provisioning',
  'e2e/security/codes-and-refresh',
  'e2e/agent/story',
  'e2e/proxy/sign-in',
  'e2e/documentation/first-run',
  'e2e/proxy/my-servers-story',
  'e2e/security/secrets-kept',
  'e2e/security/people',
  'e2e/gateway/tools-story',
  'e2e/tray/windows',
  'e2e/dashboard/sign-in-ways',
  'e2e/nodes/reference-server',
  'e2e/nodes/storm',
  'e2e/oauth/upstream-access',
  'e2e/oauth/consent',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const levels = Map.groupBy(await super.sort(files), ({ project }) => project);
    return [...levels.values()].flatMap((level) =>
      level.toSorted((one, other) => placeOf(one) - placeOf(other)),
    );
  }
}

function placeOf({ moduleId }: TestSpecification): number {
  const place = longest.findIndex((name) => moduleId.endsWith(`test/${name}.test.ts`));
  return place < 0 ? longest.length : place;
}

/** `test/README.md` says what each level is for and what it costs. */
const level = (
  name: string,
  include: string | readonly string[],
  { exclude = [], order, timeoutMs, workers, env }: Level,
) => ({
  test: {
    name,
    include: [include].flat(),
    ...(env && { env }),
    exclude: [...exclude],
    // Not threads: the keychain's library reads the environment of the process.
    pool: 'forks' as const,
    isolate: false,
    // Node itself loads our modules, and runs them as it does in production. Vitest's own loader is for `vi.mock`, which no test uses:
    // it does not reach modules that another file of the worker has loaded.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    fileParallelism: workers > 1,
    maxWorkers: workers,
    sequence: { groupOrder: order },
    testTimeout: timeoutMs,
    hookTimeout: timeoutMs,
    globalSetup: [
      'test/support/own-folder-setup.ts',
      ...(name === 'contract' ? ['test/support/postgres-setup.ts'] : []),
      ...(order > 0 ? ['test/support/end-to-end-setup.ts'] : []),
    ],
    setupFiles: ['test/support/own-folder.ts', 'test/support/processor-time.ts'],
  },
});

interface Level {
  readonly exclude?: readonly string[];
  /** Levels of the same order share their workers, so that one begins while the last files of the other still run. */
  readonly order: number;
  /**
   * Asserts nothing: room for a machine that does other things too. Longer than the waits of a test together, each of which is
   * limited to a minute (`patient`) and says what it waited for.
   */
  readonly timeoutMs: number;
  /** How many files run at a time: more than there are cores, as many of them often wait. */
  readonly workers: number;
  readonly env?: Record<string, string>;
}

/**
 * Stories of one server that also run against three nodes behind a balancer that picks one at random for each request: those in which
 * nodes notify each other, or compete for what only one may have. Others read the files of the one server, count what it alone
 * opens at its upstream, or run its pages in their own process, and stay out.
 */
const storiesOfNodes = [
  'test/e2e/gateway/{eras,listening}.test.ts',
  'test/e2e/oauth/single-sign-on.test.ts',
  'test/e2e/security/provider-logouts.test.ts',
  'test/e2e/security/{mcp-translated,mcp-sessions}.test.ts',
  'test/e2e/security/{assertions,devices,narrowed-streams}.test.ts',
  'test/e2e/security/{provisioning,revocation,revoked-sessions}.test.ts',
];

/**
 * Repeated with nodes only in the level `full`: how a node reads messages and parameters, which does not depend on the others; stories
 * in the browser, in which nodes share nothing but the database, as `storiesOfNodes` tests faster without a browser; and what
 * `test/e2e/nodes` tests on nodes already: codes and refresh tokens in `security-checks`, agents in `agents`, `remote-agents` and `reference-server`.
 */
const otherStoriesOfNodes = [
  'test/e2e/agent/story.test.ts',
  'test/e2e/dashboard/story.test.ts',
  'test/e2e/oauth/{consent,provider-logout}.test.ts',
  'test/e2e/proxy/sign-in-story.test.ts',
  'test/e2e/security/{codes-and-refresh,mcp-messages,mcp-parameters}.test.ts',
];

const full = '**/*.full.test.ts';

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      level('unit', 'test/unit/**/*.test.ts', {
        exclude: [full],
        order: 0,
        timeoutMs: 120_000,
        workers: 4,
      }),
      level('contract', 'test/contract/**/*.test.ts', {
        order: 0,
        timeoutMs: 120_000,
        workers: 4,
      }),
      level('e2e', 'test/e2e/**/*.test.ts', {
        exclude: [full],
        order: 1,
        timeoutMs: 240_000,
        workers: 5,
      }),
      level('nodes', storiesOfNodes, {
        order: 1,
        timeoutMs: 240_000,
        workers: 5,
        env: { TEST_NODES: '3' },
      }),
      level('full', `test/${full}`, { order: 2, timeoutMs: 900_000, workers: 1 }),
      level('full-nodes', otherStoriesOfNodes, {
        order: 2,
        timeoutMs: 240_000,
        workers: 1,
        env: { TEST_NODES: '3' },
      }),
    ],
  },
});
