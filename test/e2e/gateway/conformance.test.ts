import { expect, test } from 'vitest';
import { temporaryFolder } from '#support/temporary-folder';
import { runAuthorizationScenarios } from '../../conformance/run-authorization-scenarios.ts';
import { runClientScenarios } from '../../conformance/run-client-scenarios.ts';
import { runServerScenarios } from '../../conformance/run-server-scenarios.ts';

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
  ['client', 26, runClientScenarios, clientScenarios],
  ['authorization', 12, runAuthorizationScenarios, []],
  ['server', 267, runServerScenarios, ['http']],
] as const)(
  'conformance: the %s scenarios of the normal run pass, all %i',
  { timeout: timeoutMs },
  async ([, count, run, wanted]) => {
    await using folder = await temporaryFolder('conformance');
    const lines: string[] = [];

    const result = await run(wanted, folder.path, (line) => lines.push(line));

    if (result.failures > 0) console.error(lines.join('\n'));
    expect(result).toEqual({ failures: 0, total: count });
  },
);
