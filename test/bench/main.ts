/**
 * `npm run bench -- [GROUP] [--rows NAME,…] [--slots N] [--starts N] [--seconds S] [--against DIR]`: what ours costs, as a ratio to a floor, in one
 * interleaved run. Nothing is asserted: a table to read and to keep. See README.md beside this file.
 */
import { benchActivity } from './activity.ts';
import { benchAdmissions } from './admissions.ts';
import { benchAgents } from './agents.ts';
import { benchCollections } from './collections.ts';
import { benchDashboard } from './dashboard.ts';
import { benchGateway } from './gateway.ts';
import { benchNodes } from './nodes.ts';
import { benchProcesses } from './processes.ts';
import { benchProxy } from './proxy.ts';
import { benchRecording } from './recording.ts';
import { benchToolRules } from './tool-rules.ts';
import { benchGatewayRows, benchProxyRows, rowOptions } from './rows.ts';

const log = (line: string) => console.error(line);
const { group, ...options } = rowOptions(process.argv.slice(2));
const isSelected = options.rows !== undefined || options.against !== undefined;

const benches = {
  proxy: [() => benchProxyRows(options, log), () => benchProxy(log)],
  gateway: [() => benchGatewayRows(options, log), () => benchGateway(log)],
  dashboard: [() => benchDashboard(log)],
  agents: [() => benchAgents(log)],
  collections: [() => benchCollections(log)],
  admissions: [() => benchAdmissions(log)],
  activity: [() => benchActivity(log)],
  recording: [() => benchRecording(options, log)],
  nodes: [() => benchNodes(log)],
  processes: [() => benchProcesses(log)],
  rules: [async () => benchToolRules()],
};

// An exit handler kills every child, so this process must call `process.exit` itself: on a signal, and when its time is over.
process.on('SIGINT', () => process.exit(130)).on('SIGTERM', () => process.exit(143));
setTimeout(() => {
  log('given up after twenty minutes');
  process.exit(1);
}, 1_200_000).unref();

for (const [name, tables] of Object.entries(benches)) {
  if (group !== undefined && group !== name) continue;
  // Only the first table supports `--rows` and `--against`.
  for (const table of isSelected ? tables.slice(0, 1) : tables)
    console.log(`\n### ${name}\n\n${await table()}`);
}
