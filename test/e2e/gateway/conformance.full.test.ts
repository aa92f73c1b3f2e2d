import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runProgram } from '#support/processes';

const main = join(import.meta.dirname, '../../conformance/main.ts');
const timeoutMs = 900_000;

test.for([
  ['client', 120],
  ['authorization', 12],
] as const)(
  'conformance: every %s scenario of the official suite passes',
  { timeout: timeoutMs },
  async ([kind, count]) => {
    const run = await runProgram(process.execPath, { args: [main, kind], timeoutMs });

    expect(run.stdout).toContain(`\n${count} of ${count} pass`);
    expect(run.code).toBe(0);
  },
);

test(
  'conformance: what passes at an MCP server passes through the gateway, by HTTP, stdio and agent',
  { timeout: timeoutMs },
  async () => {
    const run = await runProgram(process.execPath, { args: [main, 'server'], timeoutMs });
    const [, passed, total] = /\n(\d+) of (\d+) pass/.exec(run.stdout) ?? [];

    expect(run.stdout).toContain('| scenario | revision | directly | http | stdio | agent |');
    expect(run.stdout).toContain('| server-stateless | 2026-07-28 |');
    expect([passed, run.code]).toEqual([total, 0]);
    expect(Number(total)).toBeGreaterThan(750);
  },
);
