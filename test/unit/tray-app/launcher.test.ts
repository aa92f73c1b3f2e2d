import { expect, test } from 'vitest';
import { launchEntry } from '#proxy/config/launch-entry';
import { proxyLauncher } from '#tray/main/launcher';

const sources = { node: '/usr/bin/node', script: '/src/proxy/bin/latchkey.js' };
const installed = { packaged: true, env: {}, sources };

test.each([
  ['darwin', '/Applications/Latchkey.app/Contents/Resources', '/latchkey'],
  ['linux', '/opt/Latchkey/resources', '/latchkey'],
  ['win32', 'C:\\Users\\dana\\AppData\\Local\\Programs\\Latchkey\\resources', '\\latchkey.exe'],
] as const)(
  'assistant entry: the packaged app names its bundled proxy, on %s',
  (platform, resourcesPath, name) => {
    const launcher = proxyLauncher({ ...installed, platform, resourcesPath });

    expect(launcher).toEqual({ program: resourcesPath + name });
  },
);

test('assistant entry: an AppImage names the image, whose path is stable while its content moves', () => {
  const env = {
    APPDIR: '/tmp/.mount_LatchkX',
    APPIMAGE: '/home/dana/Latchkey-linux-x86_64.AppImage',
  };

  const launcher = proxyLauncher({
    ...installed,
    platform: 'linux',
    resourcesPath: '/tmp/.mount_LatchkX/resources',
    env,
  });

  expect(launcher).toEqual({ program: env.APPIMAGE });
});

test('assistant entry: a translocated macOS app writes none, and says where to move the app', () => {
  const launcher = proxyLauncher({
    ...installed,
    platform: 'darwin',
    resourcesPath: '/private/var/folders/z/T/AppTranslocation/5C/d/Latchkey.app/Contents/Resources',
  });

  expect(() => launchEntry(launcher, 'sales', { typed: false })).toThrow(
    expect.objectContaining({ hint: expect.stringContaining('Applications') }),
  );
});

test('assistant entry: from the sources it names the command that runs the sources', () => {
  const launcher = proxyLauncher({
    ...installed,
    packaged: false,
    platform: 'linux',
    resourcesPath: '/node_modules/electron/dist/resources',
  });

  expect(launcher).toBe(sources);
});
