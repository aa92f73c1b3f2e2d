import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Pool } from 'undici';
import { insertAgent } from '#server/db/agents';
import { insertOrganization } from '#server/db/organizations';
import { insertServer } from '#server/db/servers';
import { createKey } from '#server/admin/create-credentials';
import { openStores } from '#server/app/stores';
import { modern } from '#support/mcp-call';
import { startProgram } from '#support/processes';
import { runningServer } from '#support/running-server';
import { temporaryFolder } from '#support/temporary-folder';
import { median } from './measurements.ts';
import { processCost } from './process-cost.ts';

const fleets = 4;
const agentsPerFleet = 250;
const callers = (fleets * agentsPerFleet) / 10;
const seconds = 10;

interface MadeAgent {
  readonly server: string;
  readonly agentKey: string;
  readonly mcpKey: string;
}

/** A thousand agents at one server, a tenth of them asked without a pause; a Markdown table. */
export async function benchAgents(log: (line: string) => void): Promise<string> {
  await using stack = new AsyncDisposableStack();
  const { path: dataDir } = stack.use(await temporaryFolder('bench'));
  const made = await makeAgents(dataDir);
  const server = stack.use(await runningServer({ dataDir, args: ['--log-level', 'warn'] }));
  const { pid } = server.program;
  const resident = () => processCost(pid)?.residentBytes ?? 0;

  const before = resident();
  const startedAt = performance.now();
  const programs = Array.from({ length: fleets }, (_, fleet) => {
    const program = stack.use(
      startProgram(process.execPath, { args: [join(import.meta.dirname, 'agent-fleet.ts')] }),
    );
    const agents = made
      .slice(fleet * agentsPerFleet, (fleet + 1) * agentsPerFleet)
      .map(({ agentKey, server: name }) => ({ key: agentKey, server: name }));
    program.write(`${JSON.stringify({ base: server.base, agents })}\n`);
    return program;
  });
  for (const program of programs) await program.line(/^connected/m, { timeoutMs: 120_000 });
  const connectedMs = performance.now() - startedAt;
  const idle = resident();
  log(`${made.length} agents connected`);

  const asked = made.filter((_, index) => index % 10 === 0).slice(0, callers);
  const cpuBefore = processCost(pid)?.cpuMs ?? 0;
  const { times, wrong, elapsedMs } = await askAll(server.base, asked);
  const cpuMs = (processCost(pid)?.cpuMs ?? 0) - cpuBefore;
  const lost = programs.flatMap(({ stdout }) => stdout.match(/^lost/gm) ?? []).length;
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(sorted.length * share)] ?? 0;
  const kilobytes = (bytes: number) => (bytes / made.length / 1024).toFixed(1);

  const rows: readonly (readonly [string, string])[] = [
    ['agents, each with a tunnel and a server', `${made.length}`],
    ['until all are connected, s', (connectedMs / 1000).toFixed(1)],
    ['memory per idle agent, KB', kilobytes(idle - before)],
    ['memory per agent after the calls, KB', kilobytes(resident() - before)],
    ['calls under way all the time', `${asked.length}`],
    ['calls', `${times.length}`],
    ['calls, 1/s', (times.length / (elapsedMs / 1000)).toFixed(0)],
    ['answer time, median, ms', median(times).toFixed(1)],
    ['answer time, p99, ms', at(0.99).toFixed(1)],
    ["the server's processor time per call, ms", (cpuMs / times.length).toFixed(2)],
    ['answers lost or with the nonce of another', `${wrong}`],
    ['tunnels lost', `${lost}`],
  ];
  return ['| figure | latchkey-server |', '| --- | --: |', ...rows.map(line)].join('\n');
}

/** Asks each server over and over, with a nonce in each call; times in ms. */
async function askAll(base: string, asked: readonly MadeAgent[]) {
  const pool = new Pool(base, { connections: asked.length });
  const times: number[] = [];
  let wrong = 0;
  const startedAt = performance.now();
  const ask = async ({ server, mcpKey }: MadeAgent) => {
    while (performance.now() - startedAt < seconds * 1000) {
      const nonce = randomUUID();
      const { headers, body } = modern('tools/call', { name: 'echo', arguments: { nonce } });
      const sentAt = performance.now();
      const answer = await pool.request({
        path: `/mcp/acme/${server}`,
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json', 'x-api-key': mcpKey },
        body,
      });
      const text = await answer.body.text();
      times.push(performance.now() - sentAt);
      if (!text.includes(nonce)) wrong += 1;
    }
  };
  await Promise.all(asked.map(ask));
  const elapsedMs = performance.now() - startedAt;
  await pool.close();
  return { times, wrong, elapsedMs };
}

/** Written straight to the database: a thousand commands would take an hour. */
async function makeAgents(dataDir: string): Promise<MadeAgent[]> {
  const stores = await openStores(dataDir);
  const createdAt = Math.floor(Date.now() / 1000);
  const ports = { db: stores.db, clock: { now: () => createdAt } };
  await insertOrganization(stores.db, { id: 'org_acme', name: 'acme', createdAt });
  const at = { organizationId: 'org_acme', createdAt };
  const made: MadeAgent[] = [];
  for (let index = 0; index < fleets * agentsPerFleet; index += 1) {
    const server = `s${index}`;
    const [agentId, serverId] = [`agent_${index}`, `srv_${index}`];
    await insertAgent(stores.db, { ...at, id: agentId, name: server });
    const upstream = { kind: 'agent', agentId } as const;
    const targetId = `target_${index}`;
    await insertServer(stores.db, { ...at, id: serverId, targetId, name: server, upstream });
    const chosen = { name: server, expiresAt: undefined };
    const ofAgent = { type: 'agent', agentId } as const;
    const agent = await createKey({ ...chosen, owner: ofAgent, scopes: [] }, ports);
    const ofServer = { type: 'server', serverId } as const;
    const scopes = ['mcp:tools:execute'] as const;
    const mcp = await createKey({ ...chosen, owner: ofServer, scopes }, ports);
    made.push({ server, agentKey: agent.key, mcpKey: mcp.key });
  }
  await stores.close();
  return made;
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}
