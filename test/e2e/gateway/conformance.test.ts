import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runProgram } from '#support/processes';

const main = join(import.meta.dirname, '../../conformance/main.ts');
const timeoutMs = 900_000;

/** One scenario of each kind of behaviour; `conformance.full.test.ts` runs them all. */
const clientScenarios = [
  'initialize',
  'tools_call',
  'sse-retry',
  'http-custom-headers',
  'sep-2322-client-request-state',
  'auth/basic-cimd',
  'auth/scope-step-up',
  'auth/iss-wrong-issuer',
  'auth/client-credentials-jwt',
];

test.for([
  ['client', 26, clientScenarios],
  ['authorization', 12, []],
  ['server', 267, ['http']],
] as const)(
  'conformance: the %s scenarios of the normal run pass, all %i',
  { timeout: timeoutMs },
  async ([kind, count, wanted]) => {
    const run = await runProgram(process.execPath, { args: [main, kind, ...wanted], timeoutMs });

    if (run.code !== 0) console.error(run.stdout, run.stderr);
    expect(run.stdout).toContain(`\n${count} of ${count} pass`);
    expect(run.code).toBe(0);
  },
);
