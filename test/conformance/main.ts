/**
 * `npm run conformance -- client|authorization|server [SCENARIO…]`: runs the official suite's client scenarios against
 * our proxy, its authorization scenarios against our server, or its server scenarios through our gateway, over every
 * kind of upstream or those named. Prints a table, and exits with 1 when a scenario fails.
 * `CONFORMANCE_OUT` names a folder that keeps every run's checks.
 */
import { temporaryFolder } from '#support/temporary-folder';
import { runAuthorizationScenarios } from './run-authorization-scenarios.ts';
import { runClientScenarios } from './run-client-scenarios.ts';
import { runServerScenarios } from './run-server-scenarios.ts';

const runs: Record<string, typeof runClientScenarios> = {
  client: runClientScenarios,
  authorization: runAuthorizationScenarios,
  server: runServerScenarios,
};
const [kind = '', ...wanted] = process.argv.slice(2);
const run = runs[kind];
if (!run) {
  console.error(
    'usage: npm run conformance -- client|authorization|server [legacy|modern|http|stdio|agent] [SCENARIO…]',
  );
  process.exit(2);
}
await using folder = await temporaryFolder('conformance');
const { failures, total } = await run(
  wanted,
  process.env['CONFORMANCE_OUT'] || folder.path,
  console.log,
);
console.log(`\n${total - failures} of ${total} pass`);
process.exitCode = failures > 0 || total === 0 ? 1 : 0;
