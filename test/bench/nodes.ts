import { join } from 'node:path';
import { request } from 'undici';
import { startProgram, type Program } from '#support/processes';
import { temporaryFolder } from '#support/temporary-folder';
import { Installation, type ServerNode } from '../nodes/installation.ts';
import { answers, httpLoad } from './http-load.ts';
import type { Shot } from './shot.ts';
import { interleaved, Measurements, type Figure } from './measurements.ts';
import { processCost } from './process-cost.ts';
import { latchkeyProcess, toolCall } from './server-contenders.ts';

const figures = {
  one: { name: '1 connection, calls/s', unit: '', digits: 0 },
  oneMs: { name: 'the same, median answer time', unit: 'ms', digits: 3 },
  many: { name: '64 connections, calls/s', unit: '', digits: 0 },
  manyMs: { name: 'the same, median answer time', unit: 'ms', digits: 2 },
  cpu: { name: 'processor time of the nodes a call, 64 connections', unit: 'µs', digits: 0 },
  database: { name: 'processor time of PostgreSQL a call', unit: 'µs', digits: 1 },
} satisfies Record<string, Figure>;

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);
const seconds = 3;
const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
const version = '2025-06-18';

interface Racer {
  readonly name: string;
  readonly shot: Shot;
  readonly pids: () => readonly number[];
}

/** Measures what a shared database, another node's session and another node's agent cost. Returns three Markdown tables. */
export async function benchNodes(log: (line: string) => void): Promise<string> {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('bench'));
  const target = stack.use(
    startProgram(process.execPath, { args: [join(import.meta.dirname, 'floors/mcp-target.ts')] }),
  );
  const [, origin = ''] = await target.line(/listening on (\S+)/, { timeoutMs: 60_000 });
  const alone = await sqliteRacer(origin, folder);
  stack.use(alone.server);
  const installation = stack.use(await Installation.create({ size: 1 }));
  const { postgres } = installation;
  const created = async (...words: string[]) =>
    JSON.parse(await installation.command(...words, '--json')).key;
  await installation.command('organization', 'create', 'bench');
  await installation.command('server', 'create', 'bench/http', '--http-url', `${origin}/mcp`);
  await installation.command(
    'server',
    'create',
    'bench/session',
    '--http-url',
    `${origin}/session`,
  );
  const connectKey = await created('agent', 'create', 'bench/near');
  await installation.command('server', 'create', 'bench/agent', '--agent', 'near');
  const fleet = stack.use(
    startProgram(process.execPath, { args: [join(import.meta.dirname, 'agent-fleet.ts')] }),
  );
  // The agent connects while there is only one node, so it is at that node.
  const agents = [{ key: connectKey, server: 'agent' }];
  fleet.write(`${JSON.stringify({ base: installation.base, agents })}\n`);
  await fleet.line(/^connected/m);
  await installation.addNode();
  const [near, far] = installation.nodes;
  if (!near || !far) throw new Error('two nodes were expected');

  const keys = {
    http: await created('key', 'create', 'bench/http', '--name', 'bench'),
    session: await created('key', 'create', 'bench/session', '--name', 'bench'),
    agent: await created('key', 'create', 'bench/agent', '--name', 'bench'),
  };
  const host = new URL(installation.base).host;
  const shotAt = (node: ServerNode, server: keyof typeof keys, headers = {}): Shot => ({
    url: `http://${node.host}:${node.port}/mcp/bench/${server}`,
    headers: { ...json, host, 'x-api-key': keys[server], ...headers },
    body: toolCall,
  });
  const pids = () => installation.nodes.map(({ program }) => program.pid);
  const racer = (name: string, shot: Shot): Racer => ({ name, shot, pids });
  const session = await openedSession(shotAt(near, 'session'));
  const stores = [alone.racer, racer('one node on PostgreSQL', shotAt(near, 'http'))];
  const places = [
    racer('session, at its node', shotAt(near, 'session', session)),
    racer('session, at another node', shotAt(far, 'session', session)),
    racer('agent, at its node', shotAt(near, 'agent')),
    racer('agent, at another node', shotAt(far, 'agent')),
  ];

  const measurements = new Measurements();
  const { name: generator, load } = await httpLoad(folder);
  const racers = [...stores, ...places];
  for (const { shot } of racers) {
    await answers(shot, '"result"');
    await load(shot, 64, 2);
  }
  log(`${rounds} rounds of ${2 * seconds} s for each of ${racers.length}, loaded by ${generator}`);
  const cpuMs = (of: readonly number[]) =>
    of.reduce((sum, pid) => sum + (processCost(pid)?.cpuMs ?? Number.NaN), 0);
  await interleaved(rounds, racers, async ({ name, shot, pids: own }) => {
    const one = await load(shot, 1, seconds);
    measurements.add(figures.one, name, one.perSecond);
    measurements.add(figures.oneMs, name, one.medianMs);
    const [before, databaseBefore] = [cpuMs(own()), cpuMs([postgres.pid])];
    const many = await load(shot, 64, seconds);
    const [after, databaseAfter] = [cpuMs(own()), cpuMs([postgres.pid])];
    const calls = many.perSecond * seconds;
    measurements.add(figures.many, name, many.perSecond);
    measurements.add(figures.manyMs, name, many.medianMs);
    measurements.add(figures.cpu, name, ((after - before) * 1000) / calls);
    if (name === alone.racer.name) return;
    measurements.add(figures.database, name, ((databaseAfter - databaseBefore) * 1000) / calls);
  });
  const table = (group: readonly Racer[]) =>
    measurements.markdown(
      Object.values(figures),
      group.map(({ name }) => name),
    );
  return `${table(stores)}\n\n${table(places.slice(0, 2))}\n\n${table(places.slice(2))}`;
}

/** One process on SQLite, before the same MCP server. */
async function sqliteRacer(
  origin: string,
  folder: string,
): Promise<{ racer: Racer; server: Program }> {
  const { base, server, command } = await latchkeyProcess(folder);
  try {
    await command('server', 'create', 'bench/http', '--http-url', `${origin}/mcp`);
    const { key = '' } = await command('key', 'create', 'bench/http', '--name', 'bench');
    const shot = {
      url: `${base}/mcp/bench/http`,
      headers: { ...json, 'x-api-key': key },
      body: toolCall,
    };
    return { racer: { name: 'one process on SQLite', shot, pids: () => [server.pid] }, server };
  } catch (error) {
    await server.end();
    throw error;
  }
}

/** The headers of a call in a session that was opened with `shot`. */
async function openedSession({ url, headers }: Shot): Promise<Record<string, string>> {
  const params = {
    protocolVersion: version,
    capabilities: {},
    clientInfo: { name: 'bench', version: '1' },
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params });
  const answer = await request(url, { method: 'POST', headers, body });
  await answer.body.dump();
  const id = answer.headers['mcp-session-id'];
  if (typeof id !== 'string') throw new Error(`no session at ${url}: ${answer.statusCode}`);
  return { 'mcp-session-id': id, 'mcp-protocol-version': version };
}
