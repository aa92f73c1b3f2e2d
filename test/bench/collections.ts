import { createServer } from 'node:http';
import { Pool } from 'undici';
import { bodyOf } from '#support/counted-server';
import { listen } from '#support/loopback';
import { modern } from '#support/mcp-call';
import { temporaryFolder } from '#support/temporary-folder';
import { median } from './measurements.ts';
import { processCost } from './process-cost.ts';
import { latchkeyProcess } from './server-contenders.ts';
import { valueOf, withQuartiles, ratiosOf } from './slots.ts';

const memberCount = 10;
const toolsOfMember = 30;
/** How long the members take for each answer: the last one, and the others. */
const delaysMs = { last: 50, others: 5 };
const coldTurns = 15;
const cachedTurns = 10;
const listsInATurn = 40;
/** The number of turns that are not counted, because V8 compiles code that runs often. */
const warmingTurns = 25;

/**
 * Measures what the merged list of 300 tools of ten members costs: repeated within seconds, when it is answered from memory, and for a
 * caller that never read it, beside the list of the slowest member alone. Returns a Markdown table.
 */
export async function benchCollections(log: (line: string) => void): Promise<string> {
  await using stack = new AsyncDisposableStack();
  const { path: folder } = stack.use(await temporaryFolder('bench'));
  const members = stack.use(await delayedMembers());
  const { base, server, command } = await latchkeyProcess(folder);
  stack.use(server);
  const names = Array.from({ length: memberCount }, (_, at) => `member-${at}`);
  for (const [at, name] of names.entries())
    await command('server', 'create', `bench/${name}`, '--http-url', `${members.origin}/${at}`);
  const options = names.flatMap((name) => ['--member', name]);
  await command('collection', 'create', 'bench/all', ...options);
  const pool = stack.adopt(new Pool(base, { connections: 1 }), (one) => one.destroy());
  const { headers, body } = modern('tools/list');
  const list = async (name: string, key: string, wanted: number): Promise<number> => {
    const from = performance.now();
    const answer = await pool.request({
      method: 'POST',
      path: `/mcp/bench/${name}`,
      headers: { 'content-type': 'application/json', ...headers, 'x-api-key': key },
      body,
    });
    const text = await answer.body.text();
    const took = performance.now() - from;
    const found = text.split('"inputSchema"').length - 1;
    if (found !== wanted) throw new Error(`${name} lists ${found} tools: ${text.slice(0, 200)}`);
    return took;
  };
  const newKey = async (name: string) =>
    (await command('key', 'create', `bench/${name}`, '--name', 'bench'))['key'] ?? '';
  const all = memberCount * toolsOfMember;
  const last = `member-${memberCount - 1}`;
  // The first list notes the names for all callers, so it is not measured.
  const key = await newKey('all');
  await list('all', key, all);
  log(`${coldTurns} cold lists`);
  const [cold, alone]: [number[], number[]] = [[], []];
  for (let turn = 0; turn < coldTurns; turn += 1) {
    const [ofAll, ofLast] = [await newKey('all'), await newKey(last)];
    alone.push(await list(last, ofLast, toolsOfMember));
    cold.push(await list('all', ofAll, all));
  }
  log(`${cachedTurns * listsInATurn} lists again`);
  const [cached, cpu]: [number[], number[]] = [[], []];
  for (let turn = -warmingTurns; turn < cachedTurns; turn += 1) {
    // This list fills the cache again when its five seconds are over.
    await list('all', key, all);
    const before = processCost(server.pid)?.cpuMs ?? Number.NaN;
    const took: number[] = [];
    for (let at = 0; at < listsInATurn; at += 1) took.push(await list('all', key, all));
    if (turn < 0) continue;
    cached.push(...took);
    cpu.push(((processCost(server.pid)?.cpuMs ?? Number.NaN) - before) / listsInATurn);
  }
  const ratios = ratiosOf(cold, alone);
  return [
    '| list of 300 tools from 10 members | value | aim |',
    '| --- | --: | --: |',
    `| again, median answer time, ms | ${median(cached).toFixed(2)} | 1 |`,
    `| the same, processor time, ms | ${withQuartiles(cpu, 2)} | – |`,
    `| first time, ms | ${valueOf(cold)} | – |`,
    `| the slowest member alone, first time, ms | ${valueOf(alone)} | – |`,
    `| first time / the slowest member | ${withQuartiles(ratios, 2)} | 1.10 |`,
  ].join('\n');
}

/** Ten MCP servers in one process, at `/0` to `/9`. */
async function delayedMembers() {
  const server = createServer((request, response) => {
    void bodyOf(request).then((text) => {
      const at = Number(request.url?.slice(1));
      const { id, method }: { id?: unknown; method?: string } = JSON.parse(text || '{}');
      const delay = at === memberCount - 1 ? delaysMs.last : delaysMs.others;
      setTimeout(() => {
        if (id === undefined) return response.writeHead(202).end();
        const result = resultOf(at, method);
        const error = { code: -32_601, message: 'Method not found' };
        response.writeHead(200, { 'content-type': 'application/json' });
        return response.end(
          JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }),
        );
      }, delay);
    });
  });
  const port = await listen(server);
  return {
    origin: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function resultOf(at: number, method: string | undefined): object | undefined {
  if (method === 'initialize') {
    return {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: `member-${at}`, version: '1' },
    };
  }
  if (method !== 'tools/list') return undefined;
  return {
    tools: Array.from({ length: toolsOfMember }, (_, tool) => ({
      name: `tool_${at}_${tool}`,
      description: `What member ${at} does with its tool ${tool}. `.repeat(4),
      inputSchema: { type: 'object', properties: { from: { type: 'string' } } },
    })),
  };
}
