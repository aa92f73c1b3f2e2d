import { expect, test } from 'vitest';
import { isLaunch, launchEntry } from '#proxy/config/launch-entry';
import { packagedLauncher } from '#proxy/config/packaged-launcher';

const entry = (program: string, env: Record<string, string> = {}) =>
  launchEntry(packagedLauncher(program, env), 'sales', { typed: false });

test.each([
  '/Applications/Latchkey.app/Contents/Resources/latchkey',
  '/opt/Latchkey/resources/latchkey',
  'C:\\Users\\Dana Doe\\AppData\\Local\\Programs\\Latchkey\\resources\\latchkey.exe',
])('launcher path: an installed program is started where it is: %s', (program) => {
  expect(entry(program)).toEqual({ command: program, args: ['connect', 'sales'] });
});

test('launcher path: from an AppImage the image itself is started, because its mount point changes', () => {
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
])('launcher path: a place that is not stable is refused with a remedy: %s', (program, remedy) => {
  expect(() => entry(program)).toThrow(
    expect.objectContaining({ name: 'UsageError', hint: expect.stringMatching(remedy) }),
  );
});
