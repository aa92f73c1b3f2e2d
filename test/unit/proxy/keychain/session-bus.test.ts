import { expect, test } from 'vitest';

import { sessionBusAddress, type SessionBusHost } from '#proxy/keychain/session-bus';

const address = 'unix:abstract=/tmp/dbus-x1';
const systemd = 'unix:path=/run/user/1000/bus';

function host(changes: Partial<SessionBusHost> & { files?: Record<string, string> } = {}) {
  const { files = {}, ...rest } = changes;
  return {
    env: {},
    parentPid: 20,
    userId: 1000,
    exists: (path: string) => path in files,
    readText: (path: string) => files[path],
    ...rest,
  };
}

test('session bus: the address in the environment of the process is used', () => {
  const env = { DBUS_SESSION_BUS_ADDRESS: address };

  expect(sessionBusAddress(host({ env, files: { '/run/user/1000/bus': '' } }))).toBe(address);
});

test('session bus: otherwise that of an ancestor is used, beyond one with an odd name and one that is unreadable', () => {
  const files = {
    '/proc/20/environ': 'PATH=/bin\0HOME=/home/dana\0',
    '/proc/20/stat': '20 (a) 1 b) S 15 20 20 0',
    '/proc/15/stat': '15 (npx) S 10 20 20 0',
    '/proc/10/environ': `HOME=/home/dana\0DBUS_SESSION_BUS_ADDRESS=${address}\0`,
    '/run/user/1000/bus': '',
  };

  expect(sessionBusAddress(host({ files }))).toBe(address);
});

test('session bus: otherwise the bus in the runtime directory is used, then the one of the user', () => {
  const files = { '/run/user/1000/bus': '', '/proc/20/stat': '20 (init) S 1 20' };
  const env = { XDG_RUNTIME_DIR: '/tmp/run' };

  expect(sessionBusAddress(host({ files }))).toBe(systemd);
  expect(sessionBusAddress(host({ env, files: { ...files, '/tmp/run/bus': '' } }))).toBe(
    'unix:path=/tmp/run/bus',
  );
  expect(sessionBusAddress(host())).toBeUndefined();
});

test('session bus: a loop of parent processes ends the search', () => {
  expect(sessionBusAddress(host({ files: { '/proc/20/stat': '20 (x) S 20 20' } }))).toBeUndefined();
});
