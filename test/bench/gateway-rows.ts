import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { request } from 'undici';
import { modern } from '#support/mcp-call';
import { runProgram, type Program } from '#support/processes';
import { freePort } from '#support/loopback';
import { floorShot, ownShot } from './assertions.ts';
import { callOf, inSession, tokenShot, type Setting } from './gateway-setting.ts';
import { processCost } from './process-cost.ts';
import { numberHere, type Shot } from './shot.ts';
import type { Reading, Row, Slot } from './slots.ts';
import { socketLoad } from './socket-load.ts';

export const plain = (tool: string) => ({
  body: `{"jsonrpc":"2.0","id":${numberHere},"method":"tools/call","params":{"name":"${tool}","arguments":{"text":"hello"}}}`,
});
const made = modern('tools/call', { name: 'json', arguments: {} });
export const modernCall = { ...made, body: made.body.replace('"id":1,', `"id":${numberHere},`) };
const connections = 64;
const tokenConnections = 16;
/** The calls after which V8 has compiled the code that they run, and the longest time for them on a slow machine. */
export const warming = { calls: 15_000, seconds: 10 };

type GatewayRow = Row<Setting>;

/** The rows of the gateway, each compared to the least program that could do the same. */
export const gatewayRows: readonly GatewayRow[] = [
  {
    ...called('json-key', 'JSON, key', { cpu: 1.3, rate: 0.85 }),
    ours: async (setting, name) => atOneProcess(setting, name, 'http', plain('json')),
  },
  {
    name: 'collection-key',
    title: 'JSON, key, a collection over its member, translated twice',
    unit: 'µs',
    aims: { cpu: 1.15 },
    floor: async (setting) => atOneProcess(setting, 'ours', 'http', plain('json')),
    ours: async (setting, name) => atOneProcess(setting, name, 'collection', plain('json')),
  },
  {
    name: 'collection-modern',
    title: 'modern caller of a modern server, a collection over its member',
    unit: 'µs',
    aims: { cpu: 1.15 },
    floor: async (setting) => atOneProcess(setting, 'ours', 'modern', modernCall),
    ours: async (setting, name) => atOneProcess(setting, name, 'modern-collection', modernCall),
  },
  {
    ...called('json-token', 'JSON, token', { cpu: 1.4 }),
    async ours(setting, name) {
      const server = await setting.sqlite(name);
      const { url, headers: form, body: asked } = tokenShot(server, server);
      const answer = await request(url, { method: 'POST', headers: form, body: asked });
      const { access_token: token }: { access_token?: string } = JSON.parse(
        await answer.body.text(),
      );
      const { 'x-api-key': _, ...others } = callOf(server, server, 'http', plain('json')).headers;
      const signed = { ...others, authorization: `Bearer ${token}` };
      return loaded({ ...callOf(server, server, 'http', plain('json')), headers: signed }, [
        server.program,
      ]);
    },
  },
  {
    ...called('session-json', 'JSON in a session', { cpu: 1.4 }),
    ours: async (setting, name) => atOneProcess(setting, name, 'session', plain('json')),
  },
  {
    ...called('session-events', 'events in a session', { cpu: 1.6 }, plain('sse')),
    ours: async (setting, name) => atOneProcess(setting, name, 'session', plain('sse')),
  },
  {
    ...called('modern-to-legacy', 'modern caller, legacy server', { cpu: 2.2 }, modernCall),
    ours: async (setting, name) => atOneProcess(setting, name, 'http', modernCall),
  },
  {
    ...called('legacy-to-modern', 'legacy caller, modern server', { cpu: 2.2 }),
    // In front of a modern server, the gateway gives legacy callers no session.
    ours: async (setting, name) => atOneProcess(setting, name, 'modern', plain('json')),
  },
  {
    ...called('agent', 'agent hop, both processes', { cpu: 2 }),
    async ours(setting, name) {
      const server = await setting.sqlite(name);
      const agent = await setting.agent(name);
      const shot = callOf(server, server, 'agent', plain('json'));
      await untilConnected(shot);
      return loaded(shot, [server.program, agent]);
    },
  },
  nodeRow('session-near', 'session, at its node', 'near', 'session'),
  nodeRow('session-far', 'session, at another node', 'far', 'session', { cpu: 2.4 }),
  nodeRow('agent-near', 'agent, at its node', 'near', 'agent'),
  nodeRow('agent-far', 'agent, at another node', 'far', 'agent', { cpu: 2.2 }),
  tokenRow('tokens-sqlite', 'tokens, SQLite', { rate: 0.95 }, async (setting, name) => {
    const server = await setting.sqlite(name);
    return [tokenShot(server, server), server.program];
  }),
  tokenRow('tokens-sqlite-2', 'tokens, SQLite, two processes', {}, async (setting, name) => {
    const server = await setting.sqlite(name, 2);
    return [tokenShot(server, server), server.program];
  }),
  tokenRow('tokens-postgres', 'tokens, PostgreSQL', {}, async (setting, name) => {
    const nodes = await setting.nodes(name);
    return [tokenShot(nodes, nodes.near), nodes.near.program];
  }),
  tokenRow('tokens-postgres-2', 'tokens, PostgreSQL, two processes', {}, async (setting, name) => {
    const nodes = await setting.nodes(name);
    const two = await setting.once(`two ${name}`, nodes.twoProcesses);
    return [tokenShot(nodes, two), two.program];
  }),
  {
    name: 'assertion',
    title: 'identity assertions, SQLite',
    unit: 'µs',
    aims: { rate: 0.7 },
    async floor(setting) {
      const { shot, running } = await floorShot(setting);
      return loaded(shot, [running.program], tokenConnections);
    },
    async ours(setting, name) {
      const { shot, running } = await ownShot(setting, name);
      return loaded(shot, [running.program], tokenConnections);
    },
  },
  memoryRow(
    'memory-server',
    'server after 50,000 calls',
    { memory: 200 },
    async (setting, name) => {
      return (await setting.sqlite(name, 1, 'memory')).program;
    },
  ),
  memoryRow('memory-agent', 'agent after the same calls', { memory: 140 }, (setting, name) =>
    setting.agent(name, 'memory'),
  ),
  {
    name: 'start-version',
    title: '`latchkey-server --version`',
    unit: 'ms',
    aims: {},
    mostSlots: 10,
    floor: async () => () => wholeProcess(['-e', '0']),
    ours: async (setting, name) => {
      const { home, server } = await warmServer(setting, name);
      return () => wholeProcess([server, '--version'], home);
    },
  },
  {
    name: 'start-server',
    title: '`latchkey-server start` until it listens',
    unit: 'ms',
    aims: { cpu: 350 },
    mostSlots: 10,
    async ours(setting, name) {
      const { home } = await warmServer(setting, name);
      const options = { home, args: [], env: { HOME: home, LATCHKEY_DATA_DIR: `${home}/data` } };
      return async () => {
        const port = await freePort();
        const startedAt = performance.now();
        const base = `http://127.0.0.1:${port}`;
        const { program } = await setting.startServer(name, { ...options, port, base });
        const rate = 1000 / (performance.now() - startedAt);
        const cpu = processCost(program.pid)?.cpuMs ?? Number.NaN;
        await program.end();
        return { cpu, rate };
      };
    },
  },
];

export function called(
  name: string,
  title: string,
  aims: GatewayRow['aims'],
  call: Pick<Shot, 'body'> & Partial<Shot> = plain('json'),
) {
  const floor = async (setting: Setting) => {
    const { origin, program } = await setting.reverseProxy();
    const shot = { headers: { 'content-type': 'application/json' }, ...call };
    return loaded({ ...shot, url: `${origin}/mcp`, wanted: '"result"' }, [program]);
  };
  return { name, title, unit: 'µs', aims, floor } as const;
}

async function atOneProcess(
  setting: Setting,
  name: string,
  server: 'http' | 'session' | 'modern' | 'collection' | 'modern-collection',
  call: Pick<Shot, 'body'> & Partial<Shot>,
): Promise<Slot> {
  const running = await setting.sqlite(name);
  const shot = callOf(running, running, server, call);
  return loaded(server === 'session' ? await inSession(shot) : shot, [running.program]);
}

/** Measures the processes of the two nodes only, without the agent and PostgreSQL. */
function nodeRow(
  name: string,
  title: string,
  at: 'near' | 'far',
  server: 'session' | 'agent',
  aims: GatewayRow['aims'] = {},
): GatewayRow {
  return {
    ...called(name, title, aims),
    async ours(setting, build) {
      const nodes = await setting.nodes(build);
      const shot = (node: 'near' | 'far') => callOf(nodes, nodes[node], server, plain('json'));
      let own = shot(at);
      if (server === 'agent') await untilConnected(own);
      else own = { ...own, headers: (await inSession(shot('near'))).headers };
      return loaded(own, [nodes.near.program, nodes.far.program]);
    },
  };
}

function tokenRow(
  name: string,
  title: string,
  aims: GatewayRow['aims'],
  ours: (setting: Setting, name: string) => Promise<readonly [Shot, Program]>,
): GatewayRow {
  return {
    name,
    title,
    unit: 'µs',
    aims,
    async floor(setting) {
      const running = await setting.tokenEndpoint();
      const client = { id: 'client_bench', secret: 'bench' };
      const furniture = { base: running.origin, client };
      return loaded(tokenShot(furniture, running), [running.program], tokenConnections);
    },
    async ours(setting, build) {
      const [shot, program] = await ours(setting, build);
      return loaded(shot, [program], tokenConnections);
    },
  };
}

/** Measures the memory of a process after calls of every kind, in an installation that only such rows use. */
function memoryRow(
  name: string,
  title: string,
  aims: GatewayRow['aims'],
  programOf: (setting: Setting, name: string) => Promise<Program>,
): GatewayRow {
  return {
    name,
    title,
    unit: 'µs',
    aims,
    mostSlots: 1,
    async ours(setting, build) {
      await setting.once(`used ${build}`, async () => {
        const server = await setting.sqlite(build, 1, 'memory');
        await setting.agent(build, 'memory');
        const session = await inSession(callOf(server, server, 'session', plain('sse')));
        const agent = callOf(server, server, 'agent', plain('json'));
        await untilConnected(agent);
        await socketLoad(callOf(server, server, 'http', plain('json')), 64, { calls: 20_000 });
        await socketLoad(session, 64, { calls: 10_000 });
        await socketLoad(agent, 64, { calls: 20_000 });
      });
      const { pid } = await programOf(setting, build);
      return async () => ({ memory: (processCost(pid)?.residentBytes ?? Number.NaN) / 1e6 });
    },
  };
}

/** Slots of load, after enough load to warm up both sides. */
async function loaded(shot: Shot, programs: readonly Program[], over = connections): Promise<Slot> {
  await socketLoad(shot, over, warming);
  return async (seconds) => {
    const read: number[] = [];
    const spent = () =>
      programs.reduce((sum, { pid }) => sum + (processCost(pid)?.cpuMs ?? Number.NaN), 0);
    const meter = () => void read.push(spent());
    const { calls, perSecond } = await socketLoad(shot, over, { seconds, meter });
    const [before = Number.NaN, after = Number.NaN] = read;
    return { cpu: ((after - before) * 1000) / calls, rate: perSecond };
  };
}

/** An agent takes a moment to dial in. */
async function untilConnected({ url, headers: sent, body: asked }: Shot): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    const answer = await request(url, {
      method: 'POST',
      headers: sent,
      body: asked.replace(numberHere, '1'),
    });
    const text = await answer.body.text();
    if (answer.statusCode < 300 && text.includes('"result"')) return;
    if (turn === 100) throw new Error(`the agent does not answer: ${text}`);
    await pause(100);
  }
}

/** Creates an installation in a folder of its own; this first command fills its caches. */
async function warmServer(setting: Setting, name: string) {
  const { server } = setting.build(name);
  const home = join(setting.folder, `start-${name}`);
  await mkdir(home, { recursive: true, mode: 0o700 });
  const env = { HOME: home, LATCHKEY_DATA_DIR: `${home}/data` };
  const args = [server, 'organization', 'create', 'bench'];
  await runProgram(process.execPath, { args, env });
  return { home, server };
}

/** Measures a process from its start to its end. Only its parent learns the processor time, so a shell starts it. */
async function wholeProcess(args: readonly string[], home = '/'): Promise<Reading> {
  const startedAt = performance.now();
  const timed = 'TIMEFORMAT="spent %3U %3S"; time "$@" >&2';
  const { code, stderr } = await runProgram('bash', {
    args: ['-c', timed, 'bash', process.execPath, ...args],
    env: { HOME: home },
  });
  const rate = 1000 / (performance.now() - startedAt);
  const [, user, system] = /spent ([\d.]+) ([\d.]+)/.exec(stderr) ?? [];
  if (code !== 0 || user === undefined) throw new Error(`${args.join(' ')}: ${stderr}`);
  return { cpu: (Number(user) + Number(system)) * 1000, rate };
}
