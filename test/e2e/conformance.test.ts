import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runProgram } from '#support/processes';

const main = join(import.meta.dirname, '../conformance/main.ts');
const timeoutMs = 900_000;

test.for([
  ['client', 112],
  ['authorization', 12],
] as const)(
  'every %s scenario of the official suite passes',
  { timeout: timeoutMs },
  async ([kind, count]) => {
    const run = await runProgram(process.execPath, { args: [main, kind], timeoutMs });

    expect(run.stdout).toContain(`\n${count} of ${count} pass`);
    expect(run.code).toBe(0);
  },
);
