import { chmod, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { publishStatus } from '#proxy/status/publish-status';
import { statusDirectory } from '#proxy/status/status-directory';
import type { ProxyRequest } from '#proxy/status/status-protocol';
import type { RunningProxy } from '#proxy/status/running-proxy';
import { ProxyWatch } from '#proxy/status/watch-proxies';
import { temporaryFolder } from '#support/temporary-folder';

const platform = process.platform;

function running(pid: number, more: Partial<RunningProxy> = {}): RunningProxy {
  const times = { startedAt: 1_800_000_000 + pid, sinceAt: 1_800_000_000 };
  const names = { version: '1', name: `c${pid}`, url: 'https://acme.example/mcp' };
  return { pid, ...times, ...names, state: 'ready', ...more };
}

/** A proxy that publishes `snapshot`. */
async function announced(directory: string, snapshot: RunningProxy) {
  const state = { snapshot, requests: [] as ProxyRequest[] };
  const presence = await publishStatus({
    directory,
    platform,
    pid: snapshot.pid,
    snapshot: () => Promise.resolve(state.snapshot),
    onRequest(request) {
      state.requests.push(request);
      return Promise.resolve();
    },
  });
  return { ...presence, state, [Symbol.asyncDispose]: async () => presence.close() };
}

async function place() {
  const folder = await temporaryFolder('running');
  return { directory: folder.path, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

function watched(directory: string) {
  const watch = new ProxyWatch({ directory, platform });
  const life = new AbortController();
  const changes = watch.changes(life.signal);
  /** The next state of all proxies for which `wanted` holds. */
  async function until(wanted: (proxies: RunningProxy[]) => boolean): Promise<RunningProxy[]> {
    for (;;) {
      const { value } = await changes.next();
      if (!value) throw new Error('the watch has ended');
      if (wanted(value)) return value;
    }
  }
  return Object.assign(watch, {
    until,
    [Symbol.dispose]() {
      life.abort();
      watch.close();
    },
  });
}

test('presence: a watcher sees running proxies, new ones, changes and exits', async () => {
  await using at = await place();
  await using first = await announced(at.directory, running(1));
  using watch = watched(at.directory);

  const before = await watch.until((all) => all.length === 1);
  const second = await announced(at.directory, running(2));
  const both = await watch.until((all) => all.length === 2);
  first.state.snapshot = running(1, { state: 'needs_sign_in', reason: 'not signed in' });
  first.changed();
  const [changed] = await watch.until(([one]) => one?.state === 'needs_sign_in');
  await second.close();
  const after = await watch.until((all) => all.length === 1);

  expect(before).toEqual([running(1)]);
  expect(both.map(({ name }) => name)).toEqual(['c1', 'c2']);
  expect(changed?.reason).toBe('not signed in');
  expect(after.map(({ pid }) => pid)).toEqual([1]);
  expect(await readdir(at.directory)).toHaveLength(1);
});

test('presence: fifty proxies are listed at the same time, and distinguished', async () => {
  await using at = await place();
  await using stack = new AsyncDisposableStack();
  const pids = Array.from({ length: 50 }, (_, index) => index + 1);
  const all = await Promise.all(pids.map(async (pid) => announced(at.directory, running(pid))));
  for (const one of all) stack.use(one);
  using watch = watched(at.directory);

  await watch.ready();

  expect(watch.proxies().map(({ pid }) => pid)).toEqual(pids);
});

test('presence: a request reaches the proxies of its connection, and no others', async () => {
  await using at = await place();
  await using first = await announced(at.directory, running(1));
  await using second = await announced(at.directory, running(2));
  using watch = watched(at.directory);

  const heard = await watch.ask('sign_in_done', ({ pid }) => pid === 1);
  await watch.ask('reconnect', () => true);

  expect(heard).toBe(1);
  expect(first.state.requests).toEqual(['sign_in_done', 'reconnect']);
  expect(second.state.requests).toEqual(['reconnect']);
});

test('presence: a socket accepts only its own user, and sends nothing without a request', async () => {
  await using at = await place();
  await using _proxy = await announced(at.directory, running(1));
  const [name = ''] = await readdir(at.directory);
  const file = join(at.directory, name);

  const said = await new Promise<string>((resolve) => {
    let text = '';
    const socket = connect(file, () => socket.end('{"ask":"everything"}\nno JSON\n'));
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
    socket.on('close', () => resolve(text));
  });

  expect(said).toBe('');
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});

test('presence: a line over the limit closes the connection, and the proxy continues', async () => {
  await using at = await place();
  await using _proxy = await announced(at.directory, running(1));
  const [name = ''] = await readdir(at.directory);
  await new Promise((resolve) => {
    const socket = connect(join(at.directory, name), () => socket.write('x'.repeat(100_000)));
    socket.on('error', () => undefined).on('close', resolve);
  });
  using watch = watched(at.directory);

  expect(await watch.until((all) => all.length === 1)).toHaveLength(1);
});

test('presence: a file that is not a proxy’s socket is ignored without a delay', async () => {
  await using at = await place();
  await writeFile(join(at.directory, '1-dead.proxy'), '');
  await writeFile(join(at.directory, 'notes.txt'), 'mine');
  using watch = watched(at.directory);

  await watch.ready();

  expect(watch.proxies()).toEqual([]);
  expect(await readdir(at.directory)).toContain('notes.txt');
});

test('presence: a folder that others can enter is refused', async () => {
  await using at = await place();
  const userId = process.getuid?.() ?? -1;
  const given = { stateDirectory: at.directory, platform, userId };
  const directory = await statusDirectory(given);
  const mode = (await stat(directory)).mode & 0o777;
  await chmod(directory, 0o755);

  expect(mode).toBe(0o700);
  await expect(statusDirectory(given)).rejects.toThrow('not a folder that only this user');
  await expect(statusDirectory({ ...given, userId: userId + 1 })).rejects.toThrow('only this user');
});

test('presence: a state directory with a long name has its sockets elsewhere', async () => {
  await using at = await place();
  const stateDirectory = join(at.directory, 'x'.repeat(100));
  await mkdir(stateDirectory);
  const userId = process.getuid?.() ?? -1;
  const directory = await statusDirectory({ stateDirectory, platform, userId });
  await using _proxy = await announced(directory, running(1));
  using watch = watched(directory);

  const [proxy] = await watch.until((all) => all.length === 1);

  expect(proxy?.pid).toBe(1);
  expect(directory).toMatch(/^\/tmp\/latchkey-\d+-[\da-f]{16}$/);
});
