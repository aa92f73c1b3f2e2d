import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { systemClock } from '#proxy/clock/clock';
import { jsonLinesLog } from '#proxy/log/log';
import type { LocalServer } from '#proxy/agent/local-server';
import { localServers, type LocalServerSettings } from '#proxy/agent/local-servers';
import { localCaller, messagesIn, saidIn, textOf } from '#support/local-server/local-caller';
import { freePort } from '#support/loopback';
import { legacyStatefulUpstream } from '#support/upstreams/legacy-stateful-upstream';

const child = join(import.meta.dirname, '../support/local-server/stdio-child.ts');
const open = localServers({
  env: process.env,
  platform: process.platform,
  node: process.execPath,
  clock: systemClock(),
  log: jsonLinesLog('error', () => undefined),
  maxMessageBytes: 16 * 1024 * 1024,
});

type Opened = { server: LocalServer; [Symbol.asyncDispose](): Promise<void> };
type Tools = NonNullable<LocalServerSettings['tools']>;

async function stdio(tools: Tools = {}): Promise<Opened> {
  const server = open({ kind: 'stdio', command: process.execPath, args: [child], tools });
  return { server, [Symbol.asyncDispose]: async () => server.close() };
}

async function http(tools: Tools = {}): Promise<Opened> {
  const upstream = await legacyStatefulUpstream();
  const server = open({ kind: 'http', url: new URL(upstream.url), tools });
  return {
    server,
    async [Symbol.asyncDispose]() {
      await server.close();
      await upstream.close();
    },
  };
}

describe.each([
  ['a command', stdio],
  ['an HTTP URL', http],
])('agent’s local server behind %s', (_, openServer) => {
  test('a session starts with initialize, answers requests and ends with DELETE', async () => {
    await using opened = await openServer();
    const dana = localCaller(opened.server);

    const greeted = await dana.initialize();
    const said = await dana.call('echo', { text: 'ünïcode ✓' });
    const ended = await dana.send(undefined, { method: 'DELETE' });
    const after = await dana.open('tools/list');

    expect(greeted.result).toMatchObject({ serverInfo: { name: 'legacy' } });
    expect(dana.session()?.length).toBeGreaterThanOrEqual(22);
    expect(textOf(said)).toBe('ünïcode ✓');
    expect(ended.status).toBeLessThan(300);
    expect(after.status).toBe(404);
  });

  test('a session is not found by another caller', async () => {
    await using opened = await openServer();
    const dana = localCaller(opened.server, 'dana');
    const eve = localCaller(opened.server, 'eve');
    await dana.initialize();

    const stolen = await eve.send({ id: 1, method: 'tools/list' }, { id: dana.session() });
    const heard = await eve.send(undefined, { method: 'GET', id: dana.session() });

    expect([stolen.status, heard.status]).toEqual([404, 404]);
    expect(textOf(await dana.call('echo', { text: 'mine' }))).toBe('mine');
  });

  test('a caller who leaves loses their session, and other callers keep theirs', async () => {
    await using opened = await openServer();
    const [dana, eve] = [localCaller(opened.server, 'dana'), localCaller(opened.server, 'eve')];
    for (const somebody of [dana, eve]) await somebody.initialize();
    await opened.server.leave('dana');

    expect((await dana.open('tools/list')).status).toBe(404);
    expect(textOf(await eve.call('echo', { text: 'mine' }))).toBe('mine');
  });

  test('progress arrives before the answer, with the caller’s progress token', async () => {
    await using opened = await openServer();
    const dana = localCaller(opened.server);
    await dana.initialize();

    const params = { name: 'progress', arguments: { steps: 3 }, _meta: { progressToken: 'mine' } };
    const said = await saidIn(await dana.open('tools/call', params));

    expect(said.map(({ params: of }) => of?.['progress'])).toEqual([1, 2, 3, undefined]);
    expect(said.map(({ params: of }) => of?.['progressToken'])).toEqual([
      'mine',
      'mine',
      'mine',
      undefined,
    ]);
    expect(said.at(-1)?.result).toBeDefined();
  });

  test('a request of the server during a call reaches the caller, and its answer the server', async () => {
    await using opened = await openServer();
    const dana = localCaller(opened.server);
    await dana.initialize();

    const answer = await dana.open('tools/call', { name: 'ask', arguments: { question: 'why' } });
    const messages = messagesIn(answer);
    const asked = (await messages.next()).value;
    const content = { type: 'text', text: 'because' };
    await dana.send({ id: asked?.id, result: { role: 'assistant', model: 'm', content } });
    const last = (await messages.next()).value;

    expect(asked).toMatchObject({ method: 'sampling/createMessage' });
    expect(textOf(last ?? {})).toBe('because');
  });

  test('an answer of 10 MB arrives whole, and concurrent answers are not mixed up', async () => {
    await using opened = await openServer();
    const dana = localCaller(opened.server);
    await dana.initialize();

    const big = await dana.call('big', { bytes: 10_000_000 });
    const echoes = await Promise.all(
      Array.from({ length: 50 }, (__, at) => dana.call('echo', { text: `nonce ${at}` })),
    );

    expect(textOf(big)).toHaveLength(10_000_000);
    expect(echoes.map(textOf)).toEqual(echoes.map((__, at) => `nonce ${at}`));
  });

  test('a tool that is not allowed is neither listed nor callable', async () => {
    await using opened = await openServer({ allow: ['echo', 'add', 'big'], deny: ['b*'] });
    const dana = localCaller(opened.server);
    await dana.initialize();

    const { result } = await dana.ask('tools/list');
    const denied = await dana.call('big', { bytes: 1 });
    const admitted = await dana.call('add', { a: 1, b: 2 });

    const names = Array.isArray(result?.['tools']) ? result['tools'].map(({ name }) => name) : [];
    expect(names).toEqual(['echo', 'add']);
    expect(denied.error).toMatchObject({ code: -32602, message: 'Unknown tool: big' });
    expect(textOf(admitted)).toBe('3');
  });
});

test('agent’s local server: leaving deletes the caller’s sessions at an HTTP server, and no one else’s', async () => {
  const upstream = await legacyStatefulUpstream();
  const server = open({ kind: 'http', url: new URL(upstream.url) });
  await localCaller(server, 'eve').initialize();
  const others = upstream.sessions();
  for (let count = 0; count < 2; count += 1) await localCaller(server, 'dana').initialize();
  const before = upstream.sessions();
  await server.leave('dana');

  expect(before).toHaveLength(3);
  expect(upstream.sessions()).toEqual(others);

  await upstream.close();
  await expect(server.leave('eve')).resolves.toBeUndefined();
  await server.close();
});

test('agent’s local server: an absent URL or command is reported as unreachable, without secrets', async () => {
  const url = new URL(`http://127.0.0.1:${await freePort()}/mcp`);
  const secret = 'Bearer very-secret-words';
  const away = localCaller(open({ kind: 'http', url, headerSecrets: { authorization: secret } }));
  const missing = localCaller(open({ kind: 'stdio', command: 'no-such-program-at-all' }));
  const failing = localCaller(
    open({
      kind: 'stdio',
      command: process.execPath,
      args: ['-e', 'console.error(`no licence ${process.env.LICENCE}`); process.exit(7)'],
      env: { LICENCE: 'abcd-1234' },
    }),
  );

  await expect(away.initialize()).rejects.toMatchObject({ code: 'unreachable' });
  await expect(away.initialize()).rejects.not.toThrow(secret);
  await expect(missing.initialize()).rejects.toThrow('cannot start no-such-program-at-all');
  await expect(failing.initialize()).rejects.toThrow('ended with code 7: no licence [redacted]');
});
