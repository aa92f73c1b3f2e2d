import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemClock } from '#proxy/clock/clock';
import { jsonLinesLog } from '#proxy/log/log';
import { localServers } from '#proxy/agent/local-servers';
import { localCaller, modernMeta, saidIn, textOf } from '#support/local-server/local-caller';
import { temporaryFolder } from '#support/temporary-folder';
import { patient } from '#support/patient';

const script = join(import.meta.dirname, '../../support/local-server/stdio-child.ts');
const everything = join(
  import.meta.dirname,
  '../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
);

async function serverOf({ args = [script], env = {} } = {}) {
  const folder = await temporaryFolder('children');
  const events = join(folder.path, 'events');
  const open = localServers({
    env: { ...process.env, LATCHKEY_AGENT_KEY: 'pk_live_secret', AWS_SECRET: 'of ours' },
    platform: process.platform,
    node: process.execPath,
    clock: systemClock(),
    log: jsonLinesLog('error', () => undefined),
    maxMessageBytes: 1024 * 1024,
  });
  const server = open({
    kind: 'stdio',
    command: process.execPath,
    args,
    env: { CHILD_EVENTS: events, ...env },
  });
  return {
    server,
    told: () => readFileSync(events, 'utf8').split('\n'),
    async [Symbol.asyncDispose]() {
      await server.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('stdio server: the child gets its own environment and nothing of the agent’s', async () => {
  await using opened = await serverOf({ env: { CRM_TOKEN: 'its own' } });
  const dana = localCaller(opened.server);
  await dana.initialize();

  const environment: Record<string, string> = JSON.parse(textOf(await dana.call('environment')));

  expect(environment).toMatchObject({ CRM_TOKEN: 'its own', PATH: process.env['PATH'] });
  expect(Object.keys(environment)).not.toContain('AWS_SECRET');
  expect(JSON.stringify(environment)).not.toContain('pk_live_');
});

test('stdio server: when its child dies, open requests get no answer, and the next session gets a new child', async () => {
  await using opened = await serverOf();
  const dana = localCaller(opened.server);
  await dana.initialize();

  const calls = [dana.call('die'), dana.call('slow', { ms: 60_000 })];
  const failures = (await Promise.allSettled(calls)).map((call): unknown =>
    call.status === 'rejected' ? call.reason : call.value,
  );
  const after = await dana.open('tools/list');
  const again = localCaller(opened.server);
  await again.initialize();

  const broken = { code: 'broken', message: 'the MCP server ended with code 3' };
  expect(failures).toMatchObject([broken, broken]);
  expect(after.status).toBe(404);
  expect(textOf(await again.call('echo', { text: 'new' }))).toBe('new');
});

test('stdio server: a disconnect of the caller cancels the call at the child', async () => {
  await using opened = await serverOf();
  const dana = localCaller(opened.server);
  await dana.initialize();
  const gone = new AbortController();
  const params = { name: 'slow', arguments: { ms: 60_000 } };
  const answer = dana.open('tools/call', params, gone.signal);
  await expect.poll(opened.told, patient).toContain('slow started');

  gone.abort();
  const said = await saidIn(await answer);

  await expect.poll(opened.told, patient).toContain('slow cancelled');
  expect(said).toEqual([]);
});

test('stdio server: garbage, oversized lines and endless stderr do no harm', async () => {
  await using opened = await serverOf();
  const dana = localCaller(opened.server);
  await dana.initialize();

  const shouted = await dana.call('shout', { line: 'this is no JSON' });
  const long = await dana.call('shout', { line: 'x'.repeat(1024 * 1024 - 500) });
  const tooLong = dana.call('big', { bytes: 2_000_000 });
  await expect(tooLong).rejects.toMatchObject({
    code: 'too_large',
    message: expect.stringContaining('larger than 1048576 bytes'),
  });
  const after = await dana.call('echo', { text: 'fine' });

  expect([shouted, long, after].map(textOf)).toEqual(['shouted', 'shouted', 'fine']);
});

test('stdio server: a child that ignores its end is killed with everything that it started', async () => {
  await using opened = await serverOf();
  const dana = localCaller(opened.server);
  await dana.initialize();
  const grandchild = Number(textOf(await dana.call('stubborn')));
  const child = Number(/started (\d+)/.exec(opened.told().join('\n'))?.[1]);
  const alive = [isAlive(child), isAlive(grandchild)];

  await opened.server.close();
  // Its parent is gone, so it may take init a moment to sweep it up.
  const survivors = () => [child, grandchild].filter(isAlive);
  await expect.poll(survivors, patient).toEqual([]);

  expect(alive).toEqual([true, true]);
});

test('stdio server: a modern child is called without a session', async () => {
  await using opened = await serverOf({ args: [script, 'modern'] });
  const dana = localCaller(opened.server);

  const discovered = await dana.ask('server/discover', { _meta: modernMeta });
  const params = { name: 'progress', arguments: { steps: 2 } };
  const meta = { ...modernMeta, progressToken: 'p' };
  const said = await saidIn(await dana.open('tools/call', { ...params, _meta: meta }));
  const unknown = await dana.open('no/such', { _meta: modernMeta });

  expect(discovered.result).toMatchObject({ supportedVersions: ['2026-07-28'] });
  expect(said.map(({ params: of }) => of?.['progress'])).toEqual([1, 2, undefined]);
  expect(unknown.status).toBe(404);
  expect(opened.told().filter((line) => line.startsWith('started'))).toHaveLength(1);
});

test('stdio server: the MCP reference server works, with roots and progress', async () => {
  await using opened = await serverOf({ args: [everything] });
  const dana = localCaller(opened.server);
  const greeted = await dana.initialize();

  const echoed = await dana.call('echo', { message: 'hello' });
  const params = {
    name: 'trigger-long-running-operation',
    arguments: { duration: 0.2, steps: 2 },
    _meta: { progressToken: 7 },
  };
  const said = await saidIn(await dana.open('tools/call', params));

  expect(greeted.result).toBeDefined();
  expect(textOf(echoed)).toContain('hello');
  expect(said.filter(({ method }) => method === 'notifications/progress')).toHaveLength(2);
});
