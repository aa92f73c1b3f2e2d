import { expect, test } from 'vitest';
import { temporaryFolder } from '#support/temporary-folder';
import { runAuthorizationScenarios } from '../../conformance/run-authorization-scenarios.ts';
import { runClientScenarios } from '../../conformance/run-client-scenarios.ts';
import { runServerScenarios } from '../../conformance/run-server-scenarios.ts';

const timeoutMs = 900_000;

/**
 * One scenario of each kind of behaviour, as one kind of assistant, and the calls of tools as both; `conformance.full.test.ts` runs
 * them all as both, and those about authorization in both revisions.
 */
const scenariosOf = {
  legacy: [
    'initialize',
    'tools_call',
    'sse-retry',
    'auth/scope-step-up',
    'auth/client-credentials-jwt',
  ],
  modern: [
    'tools_call',
    'http-custom-headers',
    'sep-2322-client-request-state',
    'auth/basic-cimd',
    'auth/iss-wrong-issuer',
  ],
};

test.for([
  ['client', 8, runClientScenarios, ['legacy', ...scenariosOf.legacy]],
  ['client', 7, runClientScenarios, ['modern', ...scenariosOf.modern]],
  ['authorization', 6, runAuthorizationScenarios, ['2026-07-28']],
  ['server', 267, runServerScenarios, ['http']],
] as const)(
  'conformance: the %s scenarios of the normal run pass, all %i',
  { timeout: timeoutMs },
  async ([, count, run, wanted]) => {
    await using folder = await temporaryFolder('conformance');
    const lines: string[] = [];

    const result = await run(wanted, folder.path, (line) => lines.push(line));

    const table = result.failures > 0 ? lines : [];
    expect({ ...result, table }).toEqual({ failures: 0, total: count, table: [] });
  },
);
