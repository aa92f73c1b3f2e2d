import { chmodSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { RunningProxy } from '#proxy/status/running-proxy';
import { ProxyWatch } from '#proxy/status/watch-proxies';
import { desktop } from '#support/desktop';
import { legacyMcp } from '#support/legacy-mcp';
import { signInFront } from '#support/sign-in-front';
import { patient } from '#support/patient';

/** Watches the proxies of a machine, as a program of the same person does. */
function watching(folder: string) {
  const directory = join(folder, 'running');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const watch = new ProxyWatch({ directory, platform: process.platform });
  const changes = watch.changes(new AbortController().signal);
  async function until(wanted: (proxies: RunningProxy[]) => boolean): Promise<RunningProxy[]> {
    for (;;) {
      const { value } = await changes.next();
      if (!value) throw new Error('the watch has ended');
      if (wanted(value)) return value;
    }
  }
  return Object.assign(watch, { directory, until, [Symbol.dispose]: () => watch.close() });
}

test('presence: running proxies are listed, and disappear when they are killed', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  await machine.run('login', server.url);
  using watch = watching(machine.folder);
  await using first = machine.proxy(server);
  await using second = machine.proxy(server);

  await Promise.all([first.handshake(), second.handshake()]);
  await first.request('tools/list');
  const both = await watch.until(
    (all) => all.length === 2 && all.some(({ lastCall }) => lastCall?.method === 'tools/list'),
  );
  first.kill('SIGKILL');
  await watch.until((all) => all.length === 1);
  second.hangUp();
  await watch.until((all) => all.length === 0);
  await second.ended;
  using later = watching(machine.folder);
  await later.ready();

  const [shown] = both;
  expect(shown).toMatchObject({
    state: 'ready',
    url: server.url,
    name: server.url,
    assistant: { name: 'test', version: '1' },
    era: 'legacy',
    scopes: ['mcp:tools:read'],
    lastCall: { outcome: 'ok' },
  });
  expect(shown?.expiresAt).toBeGreaterThan(Date.now() / 1000);
  expect(new Set(both.map(({ pid }) => pid)).size).toBe(2);
  expect(later.proxies()).toEqual([]);
  await expect.poll(() => readdirSync(watch.directory), patient).toEqual([]);
});

test('presence: a call that waits for a sign-in completes after a sign-in in another program', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  using watch = watching(machine.folder);
  // It opens a browser that nobody uses.
  await using proxy = machine.proxyWith({ BROWSER: '/bin/true' }, server, '--sign-in', 'always');
  const answer = proxy.handshake();

  const [waiting] = await watch.until(([one]) => one?.state === 'needs_sign_in');
  await machine.run('login', server.url);
  const heard = await watch.ask('sign_in_done', () => true);
  const { result } = await answer;
  await watch.until(([one]) => one?.state === 'ready');

  expect(waiting?.reason).toContain('sign in');
  expect(heard).toBe(1);
  expect(result).toMatchObject({ serverInfo: { name: 'legacy' } });
});

test('presence: a proxy whose presence cannot be published works all the same', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  await machine.run('login', server.url);
  chmodSync(join(machine.folder, 'running'), 0o755);
  await using proxy = machine.proxy(server, '--log-level', 'debug');
  await proxy.handshake();

  await expect.poll(() => proxy.stderr(), patient).toContain('cannot be watched');
  expect((await proxy.request('tools/list')).result).toBeDefined();
  expect(readdirSync(join(machine.folder, 'running'))).toEqual([]);
});
