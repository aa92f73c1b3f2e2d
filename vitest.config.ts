import { defineConfig } from 'vitest/config';

/** `test/README.md` says what each level is for and what it costs. */
const level = (
  name: string,
  include: string | readonly string[],
  { exclude = [], order, timeoutMs, alone, env }: Level,
) => ({
  test: {
    name,
    include: [include].flat(),
    ...(env && { env }),
    exclude: [...exclude],
    // Not threads: the keychain's library reads the environment of the process.
    pool: 'forks' as const,
    isolate: false,
    fileParallelism: !alone,
    maxWorkers: alone ? 1 : 2,
    sequence: { groupOrder: order },
    testTimeout: timeoutMs,
    hookTimeout: timeoutMs,
    globalSetup: [
      'test/support/own-folder-setup.ts',
      ...(name === 'contract' ? ['test/support/postgres-setup.ts'] : []),
      ...(timeoutMs > 20_000 ? ['test/support/end-to-end-setup.ts'] : []),
    ],
    setupFiles: ['test/support/own-folder.ts'],
  },
});

interface Level {
  readonly exclude?: readonly string[];
  /** Levels of the same order run at the same time. */
  readonly order: number;
  readonly timeoutMs: number;
  /** One file after the other. */
  readonly alone: boolean;
  readonly env?: Record<string, string>;
}

/**
 * Stories of one server that also run against three nodes behind a balancer that picks one at random for each request. Others
 * read the files of the one server, count what it alone opens at its upstream, or run its pages in their own process, and stay out.
 */
const storiesOfNodes = [
  'test/e2e/agent/story.test.ts',
  'test/e2e/dashboard/story.test.ts',
  'test/e2e/gateway/{eras,listening}.test.ts',
  'test/e2e/oauth/{consent,single-sign-on}.test.ts',
  'test/e2e/proxy/sign-in-story.test.ts',
  'test/e2e/security/{mcp-translated,mcp-messages,mcp-parameters,mcp-sessions}.test.ts',
  'test/e2e/security/{codes-and-refresh,narrowed-streams,revocation,revoked-sessions}.test.ts',
];

const full = '**/*.full.test.ts';
const alone = '**/*.alone.test.ts';

export default defineConfig({
  test: {
    projects: [
      level('unit', 'test/unit/**/*.test.ts', {
        exclude: [full],
        order: 0,
        timeoutMs: 20_000,
        alone: false,
      }),
      level('contract', 'test/contract/**/*.test.ts', {
        order: 0,
        timeoutMs: 20_000,
        alone: false,
      }),
      level('e2e', 'test/e2e/**/*.test.ts', {
        exclude: [full, alone],
        order: 1,
        timeoutMs: 120_000,
        alone: false,
      }),
      level('alone', `test/e2e/${alone}`, { order: 2, timeoutMs: 120_000, alone: true }),
      level('nodes', storiesOfNodes, {
        order: 3,
        timeoutMs: 120_000,
        alone: false,
        env: { TEST_NODES: '3' },
      }),
      level('full', `test/${full}`, { order: 4, timeoutMs: 900_000, alone: true }),
    ],
  },
});
