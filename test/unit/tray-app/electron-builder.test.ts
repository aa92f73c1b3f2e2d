import { chmod, copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '#support/temporary-folder';
import configuration from '../../../tray-app/build/electron-builder.ts';

const packaging = join(import.meta.dirname, '../../../tray-app/build');

test('packaged tray app: it runs no code but its own', () => {
  expect(configuration.electronFuses).toMatchObject({
    runAsNode: false,
    enableNodeOptionsEnvironmentVariable: false,
    enableNodeCliInspectArguments: false,
    enableEmbeddedAsarIntegrityValidation: true,
    onlyLoadAppFromAsar: true,
    grantFileProtocolExtraPrivileges: false,
  });
});

test('packaged tray app: macOS validates libraries in the app and in its bundled proxy', async () => {
  const { entitlements, entitlementsInherit, hardenedRuntime, binaries } = configuration.mac;
  const plist = await readFile(join(packaging, '..', entitlements), 'utf8');

  expect(hardenedRuntime).toBe(true);
  expect(entitlementsInherit).toBe(entitlements);
  expect(binaries).toEqual(['Contents/Resources/latchkey']);
  expect([...plist.matchAll(/<key>(.*)<\/key>/g)].map(([, key]) => key)).toEqual([
    'com.apple.security.cs.allow-jit',
  ]);
});

test('packaged tray app: no package name contains a version, because assistants start it by that path', () => {
  expect(configuration.artifactName).not.toContain('version');
});

test('packaged tray app: packaging fails without the proxy for its system', () => {
  const pack = () => configuration.beforePack({ electronPlatformName: 'aix', arch: 3 });

  expect(pack).toThrow(/aix-arm64.latchkey with npm run sea/);
});

test('packaged tray app: an AppImage with a different entry point is refused', async () => {
  await using folder = await temporaryFolder();
  const image = join(folder.path, 'Latchkey.AppImage');
  const inside = join(folder.path, 'inside');
  const unpack = `#!/bin/sh\nmkdir squashfs-root && cp '${inside}' "squashfs-root/$2"\n`;
  await writeFile(image, unpack);
  await chmod(image, 0o755);

  await copyFile(join(packaging, 'AppRun'), inside);
  configuration.artifactBuildCompleted({ file: image });
  configuration.artifactBuildCompleted({ file: join(folder.path, 'Latchkey.deb') });
  await writeFile(inside, '#!/bin/sh\n');

  expect(() => configuration.artifactBuildCompleted({ file: image })).toThrow('AppRun');
});
