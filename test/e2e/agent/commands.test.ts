import { readFileSync } from 'node:fs';
import { chmod, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { localCaller, messagesIn, saidIn, textOf } from '#support/local-server/local-caller';
import { startProgram, type Program } from '#support/processes';
import { launcher } from '#support/proxy-process';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';
import { agentCloud, type AgentCloud, type CloudTunnel } from '#support/tunnel/agent-cloud';
import { patient } from '#support/patient';

const script = join(import.meta.dirname, '../../support/local-server/stdio-child.ts');
const modules = join(import.meta.dirname, '../../../node_modules/@modelcontextprotocol');
const keySecret = `pk_live_${'a'.repeat(36)}`;

let folder: TemporaryFolder;
let cloud: AgentCloud;
let agent: Program;
beforeAll(async () => {
  folder = await temporaryFolder('agent');
  await writeFile(join(folder.path, 'note.txt'), 'in the network');
  cloud = await agentCloud();
  agent = await started('main', cloud, configuration());
  await cloud.tunnel(1);
});
afterAll(async () => {
  await agent.end();
  await cloud[Symbol.asyncDispose]();
  await folder[Symbol.asyncDispose]();
});

const configuration = (more: object = {}) => ({
  servers: {
    legacy: {
      command: process.execPath,
      args: [script],
      env: { CHILD_EVENTS: join(folder.path, 'events') },
      denyTools: ['environment'],
    },
    files: {
      command: process.execPath,
      args: [join(modules, 'server-filesystem/dist/index.js'), folder.path],
    },
    everything: {
      command: process.execPath,
      args: [join(modules, 'server-everything/dist/index.js')],
    },
    ...more,
  },
});

/** A running agent with a configuration of its own. */
async function started(name: string, { base }: AgentCloud, value: object): Promise<Program> {
  const file = join(folder.path, `${name}.json`);
  await writeFile(file, `// of the test\n${JSON.stringify(value)}`);
  return startProgram(process.execPath, {
    args: [launcher, 'agent', '--server-url', base, '--config', file],
    env: { LATCHKEY_AGENT_KEY: keySecret, HOME: folder.path },
    endLimitMs: 20_000,
  });
}

/** A caller of one of the agent's servers, through its tunnel. */
function callerOf(tunnel: CloudTunnel, server: string) {
  return localCaller({
    async send({ method, headers, body, caller, signal }) {
      const given = { server, method, headers, caller, signal, ...(body && { body }) };
      const answer = await tunnel.send(given);
      return { ...answer, status: answer.status ?? 0 };
    },
    leave: async () => undefined,
    reset: async () => undefined,
    close: async () => undefined,
  });
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const events = () => readFileSync(join(folder.path, 'events'), 'utf8');

test('agent: exactly the servers that are bound and configured are served', async () => {
  const tunnel = await cloud.tunnel(1);
  tunnel.bind('files', 'elsewhere');
  await agent.line(/serving files$/m);
  const before = await tunnel.send({ server: 'everything' });
  tunnel.bind('legacy', 'files', 'everything', 'elsewhere');
  await agent.line(/serving legacy, files, everything/);
  const after = await tunnel.send({ server: 'elsewhere' });

  expect(cloud.keys[0]).toBe(keySecret);
  expect(tunnel.hellos[0]).toMatchObject({
    servers: [
      { name: 'legacy', kind: 'stdio' },
      { name: 'files', kind: 'stdio' },
      { name: 'everything', kind: 'stdio' },
    ],
  });
  expect([before.reset?.code, after.reset?.code]).toEqual(['unknown_server', 'unknown_server']);
  await agent.line(/assigned to this agent, but not configured here: elsewhere/);
  expect(agent.stdout + agent.stderr).not.toContain(keySecret);
});

test('agent: the MCP reference servers answer through the tunnel', async () => {
  const tunnel = await cloud.tunnel(1);
  const files = callerOf(tunnel, 'files');
  const everything = callerOf(tunnel, 'everything');
  await files.initialize();
  await everything.initialize();

  const read = await files.call('read_text_file', { path: join(folder.path, 'note.txt') });
  const tools = await everything.ask('tools/list');

  expect(textOf(read)).toBe('in the network');
  expect(tools.result?.['tools']).toBeInstanceOf(Array);
});

test('agent: 10 MB answers, progress and sampling pass, and a tool denied in its configuration is absent', async () => {
  const dana = callerOf(await cloud.tunnel(1), 'legacy');
  await dana.initialize();

  const big = await dana.call('big', { bytes: 10_000_000 });
  const params = { name: 'progress', arguments: { steps: 3 }, _meta: { progressToken: 1 } };
  const progress = await saidIn(await dana.open('tools/call', params));
  const messages = messagesIn(
    await dana.open('tools/call', { name: 'ask', arguments: { question: 'why' } }),
  );
  const asked = (await messages.next()).value;
  const content = { type: 'text', text: 'because' };
  await dana.send({ id: asked?.id, result: { role: 'assistant', model: 'm', content } });
  const denied = await dana.call('environment');

  expect(textOf(big)).toHaveLength(10_000_000);
  expect(progress).toHaveLength(4);
  expect(textOf((await messages.next()).value ?? {})).toBe('because');
  expect(denied.error?.message).toBe('Unknown tool: environment');
});

test('agent: without credit an answer stops at the window, and other streams continue', async () => {
  const tunnel = await cloud.tunnel(1);
  const dana = callerOf(tunnel, 'legacy');
  await dana.initialize();
  const call = { jsonrpc: '2.0', id: 5, method: 'tools/call' };
  const params = { name: 'big', arguments: { bytes: 1_000_000 } };
  const gone = new AbortController();
  const { body } = await tunnel.send({
    server: 'legacy',
    headers: { 'mcp-session-id': dana.session() ?? '', accept: 'application/json' },
    body: Buffer.from(JSON.stringify({ ...call, params })),
    stingy: true,
    signal: gone.signal,
  });
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes >= 256 * 1024) break;
  }
  const beside = await dana.call('echo', { text: 'beside' });
  gone.abort();

  expect(bytes).toBe(256 * 1024);
  expect(textOf(beside)).toBe('beside');
});

test('agent: a call that the server resets is cancelled at the child', async () => {
  const tunnel = await cloud.tunnel(1);
  const dana = callerOf(tunnel, 'legacy');
  await dana.initialize();
  const gone = new AbortController();
  void dana.open('tools/call', { name: 'slow', arguments: { ms: 60_000 } }, gone.signal);
  await expect.poll(events, patient).toContain('slow started');

  gone.abort();

  await expect.poll(events, patient).toContain('slow cancelled');
});

test('agent: reloading the configuration adds new servers and drops no call', async () => {
  const tunnel = await cloud.tunnel(1);
  const dana = callerOf(tunnel, 'legacy');
  await dana.initialize();
  const call = dana.call('slow', { ms: 1_500 });
  const more = { another: { command: process.execPath, args: [script, 'modern'] } };
  const changed = configuration({ ...more });
  changed.servers.legacy.denyTools = [];
  await writeFile(join(folder.path, 'main.json'), JSON.stringify(changed));

  agent.kill('SIGHUP');
  await agent.line(/configuration reloaded: .*another/);
  const said = await call;
  await writeFile(join(folder.path, 'main.json'), '{"servers": {"legacy": {}}}');
  agent.kill('SIGHUP');
  await agent.line(/not reloaded: .*servers\.legacy: requires either/);

  expect(textOf(said)).toBe('done');
  expect(tunnel.hellos.at(-1)?.servers.map(({ name }) => name)).toContain('another');
});

test('agent: a session survives a lost tunnel and a drained one', async () => {
  const first = await cloud.tunnel(1);
  cloud.bound = ['legacy'];
  const dana = callerOf(first, 'files');
  await dana.initialize();
  const session = dana.session() ?? '';
  first.drain();
  const second = await cloud.tunnel(2);
  second.bind('files');
  const beside = await dana.ask('tools/list');
  second.socket.terminate();
  first.socket.terminate();
  const third = await cloud.tunnel(3);
  third.bind('files');
  const again = await callerOf(third, 'files').send(
    { id: 9, method: 'tools/list' },
    { id: session },
  );

  expect(beside.result).toBeDefined();
  expect((await saidIn(again))[0]?.result).toBeDefined();
  expect(new Set(cloud.tunnels.map(({ hellos }) => hellos[0]?.instance)).size).toBe(1);
});

test('agent: SIGKILL leaves no child process, however stubborn', async () => {
  await using own = await agentCloud();
  own.bound = ['legacy'];
  const told = join(folder.path, 'killed');
  const legacy = { command: process.execPath, args: [script], env: { CHILD_EVENTS: told } };
  await using killed = await started('killed', own, { servers: { legacy } });
  const dana = callerOf(await own.tunnel(1), 'legacy');
  await dana.initialize();
  const grandchild = Number(textOf(await dana.call('stubborn')));
  const child = Number(/started (\d+)/.exec(readFileSync(told, 'utf8'))?.[1]);
  const before = [isAlive(child), isAlive(grandchild)];

  killed.kill('SIGKILL');
  await killed.exited;

  expect(before).toEqual([true, true]);
  await expect.poll(() => [isAlive(child), isAlive(grandchild)], patient).toEqual([false, false]);
});

test('agent: SIGTERM lets a call finish, accepts nothing new and exits with 0', async () => {
  await using own = await agentCloud();
  own.bound = ['legacy'];
  const legacy = { command: process.execPath, args: [script] };
  await using ending = await started('ending', own, { servers: { legacy } });
  const tunnel = await own.tunnel(1);
  const dana = callerOf(tunnel, 'legacy');
  await dana.initialize();
  const call = dana.call('slow', { ms: 1_500 });
  await dana.call('echo', { text: 'so the call is under way' });

  ending.kill('SIGTERM');
  await ending.line(/stopping; calls still open: 1/);
  const said = await call;
  const exit = await ending.exited;

  expect(textOf(said)).toBe('done');
  expect(tunnel.hellos.at(-1)?.servers).toEqual([]);
  expect(exit).toEqual({ code: 0, signal: null });
});

test('agent: with its log on a full disk it keeps serving, and logs again once there is room', async () => {
  await using own = await agentCloud();
  own.bound = ['legacy'];
  const out = join(folder.path, 'out');
  const config = join(folder.path, 'full.json');
  const legacy = { command: process.execPath, args: [script] };
  await writeFile(config, JSON.stringify({ servers: { legacy } }));
  await writeFile(out, 'x'.repeat(8 * 512));
  // No file may grow beyond this limit, so writes fail as on a full disk.
  const start = `trap '' XFSZ; ulimit -S -f 8; exec "$@" >> '${out}' 2>&1`;
  const words = [launcher, 'agent', '--server-url', own.base, '--config', config];
  await using full = startProgram('sh', {
    args: ['-c', start, 'sh', process.execPath, ...words],
    env: { LATCHKEY_AGENT_KEY: keySecret, HOME: folder.path },
    endLimitMs: 20_000,
  });
  const dana = callerOf(await own.tunnel(1), 'legacy');
  await dana.initialize();
  const said = await dana.call('echo', { text: 'room enough' });
  const silent = readFileSync(out, 'utf8');
  await truncate(out, 0);
  full.kill('SIGTERM');

  expect(textOf(said)).toBe('room enough');
  expect(silent).toBe('x'.repeat(8 * 512));
  expect(await full.exited).toEqual({ code: 0, signal: null });
  expect(readFileSync(out, 'utf8')).toMatch(/^stopping\nstopped\n$/m);
});

test('agent: a rejected key, a readable key file and an invalid configuration are errors with a remedy', async () => {
  await using own = await agentCloud();
  own.refuse = 401;
  await using refused = await started('refused', own, configuration());
  await refused.line(/does not accept the agent's key.*\n.*restart with it in LATCHKEY_AGENT_KEY/);
  const keyFile = join(folder.path, 'key');
  await writeFile(keyFile, keySecret);
  await chmod(keyFile, 0o644);
  const bad = join(folder.path, 'bad.json');
  await writeFile(bad, '{"servers": {"A": {"url": "nowhere"}, "b": {"command": "x", "arg": []}}}');
  const run = (...args: string[]) =>
    startProgram(process.execPath, {
      args: [launcher, 'agent', '--server-url', own.base, ...args],
      env: { HOME: folder.path, LATCHKEY_AGENT_KEY: keySecret },
    });
  await using open = run('--key-file', keyFile);
  await using wrong = run('--config', bad);

  expect(await open.exited).toMatchObject({ code: 1 });
  expect(open.stderr).toContain(`hint: restrict it to its owner: chmod 600 ${keyFile}`);
  expect(await wrong.exited).toMatchObject({ code: 1 });
  for (const problem of ['servers.A: ', 'servers.A.url: ', 'servers.b.arg: '])
    expect(wrong.stderr).toContain(`${bad}: ${problem}`);
});
