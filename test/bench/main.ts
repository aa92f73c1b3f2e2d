/**
 * `npm run bench -- [proxy|server|gateway|dashboard|agents|admissions|nodes|processes]`: what ours costs, as a ratio to a floor, in one interleaved run.
 * Nothing is asserted: a table to read and to keep. See README.md beside this file.
 */
import { benchAdmissions } from './admissions.ts';
import { benchAgents } from './agents.ts';
import { benchDashboard } from './dashboard.ts';
import { benchGateway } from './gateway.ts';
import { benchNodes } from './nodes.ts';
import { benchProcesses } from './processes.ts';
import { benchProxy } from './proxy.ts';
import { benchServer } from './server.ts';

const benches = {
  proxy: benchProxy,
  server: benchServer,
  gateway: benchGateway,
  dashboard: benchDashboard,
  agents: benchAgents,
  admissions: benchAdmissions,
  nodes: benchNodes,
  processes: benchProcesses,
};
const log = (line: string) => console.error(line);

// Every child is killed as this process exits, so it must exit by itself, and in time.
process.on('SIGINT', () => process.exit(130)).on('SIGTERM', () => process.exit(143));
setTimeout(() => {
  log('given up after ten minutes');
  process.exit(1);
}, 600_000).unref();

const wanted = process.argv[2];
for (const [name, bench] of Object.entries(benches)) {
  if (wanted === undefined || wanted === name) console.log(`\n### ${name}\n\n${await bench(log)}`);
}
