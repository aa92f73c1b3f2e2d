import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import {
  isLaunch,
  launchEntry,
  launchEnvironment,
  packagedLauncher,
} from '#proxy/config/launch-entry';
import { readOptions } from '#proxy/config/options';

const entry = (program: string, env: Record<string, string> = {}) =>
  launchEntry(packagedLauncher(program, env), 'sales', { typed: false });

test.each([
  '/Applications/Latchkey.app/Contents/Resources/latchkey',
  '/opt/Latchkey/resources/latchkey',
  'C:\\Users\\Dana Doe\\AppData\\Local\\Programs\\Latchkey\\resources\\latchkey.exe',
])('launcher path: an installed program is started where it is: %s', (program) => {
  expect(entry(program)).toEqual({ command: program, args: ['connect', 'sales'] });
});

test('launcher path: the AppImage itself is started, because its mount point changes', () => {
  const mounted = '/tmp/.mount_LatchkAbCdEf';
  const image = '/home/dana/Applications/Latchkey-x86_64.AppImage';

  const made = entry(`${mounted}/resources/latchkey`, { APPIMAGE: image, APPDIR: mounted });

  expect(made).toEqual({ command: image, args: ['connect', 'sales'] });
  expect(isLaunch(made, 'sales')).toBe(true);
});

test('launcher path: an AppImage of another program that started Latchkey is not used', () => {
  const env = { APPIMAGE: '/home/dana/Editor.AppImage', APPDIR: '/tmp/.mount_EditorXyz' };

  expect(entry('/opt/Latchkey/resources/latchkey', env).command).toBe(
    '/opt/Latchkey/resources/latchkey',
  );
});

test.each([
  [
    '/private/var/folders/x/T/AppTranslocation/6F/d/Latchkey.app/Contents/Resources/latchkey',
    /Finder/,
  ],
  ['/Volumes/Latchkey 0.1.0/Latchkey.app/Contents/Resources/latchkey', /drag Latchkey/],
  ['/tmp/.mount_LatchkAbCdEf/resources/latchkey', /AppImage itself/],
])(
  'launcher path: a path that is likely to disappear is refused with a remedy: %s',
  (program, remedy) => {
    expect(() => entry(program)).toThrow(
      expect.objectContaining({ name: 'UsageError', hint: expect.stringMatching(remedy) }),
    );
  },
);

const url = 'https://cloud.example.com/download/latchkey-0.1.0.tgz?v=0123456789abcdef';
test.each([
  [url, true],
  ['https://cloud.example.com/download/latchkey-1.0.0-rc.1.tgz', true],
  ['https://cloud.example.com/download/latchkey-server-0.1.0.tgz', false],
  ['https://cloud.example.com/download/other-0.1.0.tgz', false],
])('assistant entry: if npx starts %s, Latchkey created it: %s', (source, ours) => {
  const found = { command: 'npx', args: ['-y', '--prefer-offline', source, 'sales'] };

  expect(isLaunch(found, 'sales')).toBe(ours);
});

const carried = (env: Record<string, string>, given = {}) =>
  launchEnvironment(readOptions(given, env), given, { platform: 'linux', home: '/h', env });

test('assistant entry: it contains the network settings of Latchkey that the shell sets', () => {
  const env = {
    LATCHKEY_PROXY: 'http://proxy.example.com:3128',
    LATCHKEY_CA_FILE: '/etc/acme/ca.pem',
    LATCHKEY_CLIENT_CERTIFICATE_FILE: '/etc/acme/dana.pem',
    LATCHKEY_CLIENT_KEY_FILE: '/etc/acme/dana.key',
  };

  expect(carried(env)).toEqual(env);
});

test('assistant entry: a relative file of certificates becomes absolute', () => {
  expect(carried({ LATCHKEY_CA_FILE: 'ca.pem' })).toEqual({ LATCHKEY_CA_FILE: resolve('ca.pem') });
});

test('assistant entry: an option replaces the setting of the shell', () => {
  expect(carried({ LATCHKEY_PROXY: 'http://a:1' }, { proxy: 'none' })).toEqual({
    LATCHKEY_PROXY: 'none',
  });
});

test.each([
  ['a proxy with a password', { LATCHKEY_PROXY: 'http://dana:hunter2@proxy:3128' }],
  ['a passphrase', { LATCHKEY_CLIENT_KEY_PASSPHRASE: 'hunter2' }],
  ['the variables of other programs', { HTTPS_PROXY: 'http://p:1', NODE_EXTRA_CA_CERTS: '/c' }],
])('assistant entry: it never contains %s', (_, env) => {
  expect(carried(env)).toEqual({});
});
