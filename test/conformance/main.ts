/**
 * `npm run conformance -- client|authorization|server [SCENARIO…]`: the official suite's client scenarios against
 * our proxy, those about authorization against our server, or those for MCP servers through our gateway, by every
 * way to an upstream or by the ones named, as a table. Exit code 1 when one fails.
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
