import { expect, test } from 'vitest';

import { sessionBusAddress, type SessionBusMachine } from '#proxy/keychain/session-bus';

const address = 'unix:abstract=/tmp/dbus-x1';
const systemd = 'unix:path=/run/user/1000/bus';

function machine(changes: Partial<SessionBusMachine> & { files?: Record<string, string> } = {}) {
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

test('the address in the own environment is taken', () => {
  const env = { DBUS_SESSION_BUS_ADDRESS: address };

  expect(sessionBusAddress(machine({ env, files: { '/run/user/1000/bus': '' } }))).toBe(address);
});

test('an ancestor that has the address lends it, past one with an odd name and past one unreadable', () => {
  const files = {
    '/proc/20/environ': 'PATH=/bin\0HOME=/home/dana\0',
    '/proc/20/stat': '20 (a) 1 b) S 15 20 20 0',
    '/proc/15/stat': '15 (npx) S 10 20 20 0',
    '/proc/10/environ': `HOME=/home/dana\0DBUS_SESSION_BUS_ADDRESS=${address}\0`,
    '/run/user/1000/bus': '',
  };

  expect(sessionBusAddress(machine({ files }))).toBe(address);
});

test('without such an ancestor it is the bus of the runtime directory, then the one of the user', () => {
  const files = { '/run/user/1000/bus': '', '/proc/20/stat': '20 (init) S 1 20' };
  const env = { XDG_RUNTIME_DIR: '/tmp/run' };

  expect(sessionBusAddress(machine({ files }))).toBe(systemd);
  expect(sessionBusAddress(machine({ env, files: { ...files, '/tmp/run/bus': '' } }))).toBe(
    'unix:path=/tmp/run/bus',
  );
  expect(sessionBusAddress(machine())).toBeUndefined();
});

test('a circle of parents ends the search', () => {
  expect(
    sessionBusAddress(machine({ files: { '/proc/20/stat': '20 (x) S 20 20' } })),
  ).toBeUndefined();
});
