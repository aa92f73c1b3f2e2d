import { defineConfig } from 'vitest/config';

const project = (name: string, testTimeout: number, fileParallelism: boolean) => ({
  test: {
    name,
    include: [`test/${name}/**/*.test.ts`],
    testTimeout,
    hookTimeout: testTimeout,
    fileParallelism,
  },
});

export default defineConfig({
  test: {
    projects: [
      project('unit', 10_000, true),
      project('contract', 20_000, true),
      project('e2e', 60_000, false),
    ],
  },
});
