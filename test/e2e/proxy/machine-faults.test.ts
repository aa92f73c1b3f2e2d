import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { countedServer } from '#support/counted-server';
import { faultMcp, type AnswerKind } from '#support/fault-mcp';
import { killableServer } from '#support/killable-server';
import { oauthFront } from '#support/oauth-front';
import { launcher, proxyProcess, type ProxyProcess } from '#support/proxy-process';
import { temporaryFolder } from '#support/temporary-folder';
import { patient } from '#support/patient';

const LATCHKEY_API_KEY = `mcp_${'k'.repeat(36)}`;
const call = async (proxy: ProxyProcess, n: number, name = 'act') =>
  proxy.request('tools/call', { name, arguments: { n } });
const answered = { content: [{ type: 'text' }] };

test.each(['json', 'sse'] as const)(
  'stopped proxy: it continues after its server (%s) restarted and forgot the session',
  async (kind) => {
    await using server = await killableServer(kind);
    await using proxy = proxyProcess({ args: [server.url], env: { LATCHKEY_API_KEY } });
    await proxy.handshake();
    await call(proxy, 1);
    const params = { name: 'hold', arguments: { n: 2 } };
    proxy.send({ jsonrpc: '2.0', id: 'open', method: 'tools/call', params });
    await server.hears(/^hold 2$/);

    proxy.kill('SIGSTOP');
    await server.killed();
    await using again = await server.again();
    proxy.kill('SIGCONT');
    const open = await proxy.next();
    const after = await Promise.all([3, 4, 5].map(async (n) => call(proxy, n)));

    expect(open).toMatchObject({ id: 'open', error: { data: { outcome: 'unknown' } } });
    expect(after.map(({ result }) => result)).toMatchObject([answered, answered, answered]);
    expect(again.heard().filter((what) => what === 'initialize')).toHaveLength(1);
  },
);

test.each<[string, number]>([
  ['forward by a day', 86_400_000],
  ['back by a year', -31_536_000_000],
])('clock change: one set %s costs one new access token, and no call fails', async (_, ms) => {
  await using server = await oauthFront(faultMcp('sse', () => undefined).handle);
  await using folder = await temporaryFolder();
  const preload = new URL('../../support/clock-jump.mjs', import.meta.url).href;
  await using proxy = proxyProcess({
    args: [server.url],
    env: {
      LATCHKEY_OAUTH: JSON.stringify(server.client),
      LATCHKEY_SECRET_STORE: 'memory',
      LATCHKEY_STATE_DIR: folder.path,
      NODE_OPTIONS: `--import=${preload}`,
      CLOCK_JUMP_MS: String(ms),
    },
  });
  await proxy.handshake();
  await call(proxy, 1);

  proxy.kill('SIGUSR2');
  await vi.waitFor(() => expect(proxy.stderr()).toContain('the clock was set'), patient);
  const after = await Promise.all([2, 3, 4].map(async (n) => call(proxy, n)));

  expect(after.map(({ result }) => result)).toMatchObject([answered, answered, answered]);
  expect(server.tokenRequests).toHaveLength(2);
});

test.each(['json', 'sse'] as const)(
  'two assistants at one server (%s): each has its own session and its own answers',
  async (kind: AnswerKind) => {
    const heard: string[] = [];
    const { handle } = faultMcp(kind, (what) => heard.push(what));
    await using server = await countedServer(handle);
    await using folder = await temporaryFolder();
    const env = { LATCHKEY_API_KEY, LATCHKEY_STATE_DIR: folder.path };
    await using one = proxyProcess({ args: [`${server.origin}/mcp`], env });
    await using other = proxyProcess({ args: [`${server.origin}/mcp`], env });
    const both = [one, other];
    const numbers = Array.from({ length: 32 }, (_, n) => n);

    await Promise.all(both.map(async (proxy) => proxy.handshake()));
    await Promise.all(both.map(async (proxy) => proxy.request('tools/list')));
    for (const [who, proxy] of both.entries())
      for (const n of numbers) {
        const params = { name: 'act', arguments: { n: who * 100 + n } };
        proxy.send({ jsonrpc: '2.0', id: `c${n}`, method: 'tools/call', params });
      }
    const texts = await Promise.all(
      both.map(async (proxy) => {
        const found = new Set<string>();
        for (const _ of numbers) found.add(JSON.stringify((await proxy.next()).result));
        return found;
      }),
    );
    one.hangUp();
    await one.ended;
    const last = await call(other, 999);

    expect(texts.map(({ size }) => size)).toEqual([32, 32]);
    expect([...(texts[0] ?? [])].every((text) => /"text":"\d\d?"/.test(text))).toBe(true);
    expect([...(texts[1] ?? [])].every((text) => /"text":"1\d\d"/.test(text))).toBe(true);
    expect(last.result).toMatchObject(answered);
    expect(heard.filter((what) => what === 'initialize')).toHaveLength(2);
  },
);

test('full disk: nothing is stored, and every call is answered', async () => {
  await using server = await countedServer(faultMcp('json', () => undefined).handle);
  await using folder = await temporaryFolder();
  // No file may grow, so every write of the process fails as on a full disk.
  await using proxy = proxyProcess({
    command: 'bash',
    args: ['-c', 'ulimit -f 0; exec "$@"', '-', process.execPath, launcher, server.origin],
    env: { LATCHKEY_API_KEY, LATCHKEY_STATE_DIR: folder.path },
  });
  const handshake = await proxy.handshake();
  const tools = await proxy.request('tools/list');
  const called = await call(proxy, 1);
  proxy.hangUp();

  expect(handshake.result).toMatchObject({ serverInfo: { name: 'faulty' } });
  expect(tools.result).toBeTruthy();
  expect(called.result).toMatchObject(answered);
  expect(await proxy.ended).toBe(0);
});

test('read-only state directory: no effect with an API key, one readable error otherwise', async () => {
  await using server = await oauthFront(faultMcp('json', () => undefined).handle);
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'file');
  await writeFile(file, 'k'.repeat(48), { mode: 0o600 });
  const env = { LATCHKEY_STATE_DIR: join(file, 'state') };
  await using byKey = proxyProcess({ args: [server.url], env: { ...env, LATCHKEY_API_KEY } });
  await using byToken = proxyProcess({
    args: [server.url],
    env: {
      ...env,
      LATCHKEY_OAUTH: JSON.stringify(server.client),
      LATCHKEY_SECRET_STORE: 'file',
      LATCHKEY_SECRET_STORE_KEY_FILE: file,
    },
  });

  await byKey.handshake();
  const good = await call(byKey, 1);
  const bad = await byToken.handshake();

  expect(good.result).toMatchObject(answered);
  expect(bad.error?.message).toMatch(/^cannot store secrets in files: ENOTDIR.*--state-dir/);
});
