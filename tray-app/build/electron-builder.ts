import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The fields that we read from the context that electron-builder passes to a hook. */
type PackContext = { readonly electronPlatformName: string; readonly arch: number };

/** The numbers that electron-builder uses for architectures. */
const arches: Record<number, string> = { 0: 'ia32', 1: 'x64', 2: 'armv7l', 3: 'arm64' };

/**
 * How `npm run app` packages the app. Paths are relative to `tray-app`. The signing keys come from environment variables: CSC_LINK
 * and CSC_KEY_PASSWORD, WIN_CSC_LINK, APPLE_API_KEY and the variables that belong to it.
 *
 * electron-builder 26, "Configuration"
 */
export default {
  appId: 'dev.latchkey.app',
  productName: 'Latchkey',
  copyright: 'The Latchkey authors, MIT',
  directories: { app: 'dist/app', output: 'dist/packages', buildResources: 'build' },
  icon: 'icon.png',
  // Without a version, so that an update replaces the file that assistants start.
  artifactName: 'Latchkey-${os}-${arch}.${ext}',
  asar: true,
  asarUnpack: ['**/*.node'],
  // The keychain library is prebuilt, and works with any version of Node and Electron.
  npmRebuild: false,

  electronFuses: {
    // Otherwise any program could run its code in our executable, and read our keychain entries.
    runAsNode: false,
    enableNodeOptionsEnvironmentVariable: false,
    enableNodeCliInspectArguments: false,
    enableEmbeddedAsarIntegrityValidation: true,
    onlyLoadAppFromAsar: true,
    // The pages are loaded from a custom scheme, not from `file:`.
    grantFileProtocolExtraPrivileges: false,
    // The app has no cookies, and encrypting them would add an entry to the user's keychain.
    enableCookieEncryption: false,
    loadBrowserProcessSpecificV8Snapshot: false,
  },

  /** The proxy as a single executable. Assistants start it, because the app's own executable cannot run as Node. */
  extraResources: [
    { from: '../dist/sea/${platform}-${arch}', to: '.', filter: ['latchkey', 'latchkey.exe'] },
  ],
  /** Fails if the proxy is missing, because electron-builder only warns about missing resources. */
  beforePack({ electronPlatformName, arch }: PackContext): void {
    const machine = `${electronPlatformName}-${arches[arch] ?? arch}`;
    const name = electronPlatformName === 'win32' ? 'latchkey.exe' : 'latchkey';
    const program = join(import.meta.dirname, '../../dist/sea', machine, name);
    if (existsSync(program)) return;
    throw new Error(`no proxy to carry: build ${program} with npm run sea, on such a machine`);
  },

  mac: {
    target: ['dmg', 'zip'],
    category: 'public.app-category.utilities',
    hardenedRuntime: true,
    gatekeeperAssess: false,
    // electron-builder's default entitlements disable library validation.
    entitlements: 'build/entitlements.mac.plist',
    entitlementsInherit: 'build/entitlements.mac.plist',
    binaries: ['Contents/Resources/latchkey'],
    extendInfo: { LSUIElement: true },
  },
  win: { target: ['nsis'] },
  // Installed for one user, because the keychain also belongs to one. An update ends the running app and replaces it.
  nsis: { oneClick: true, perMachine: false },
  linux: {
    target: ['AppImage', 'deb'],
    executableName: 'latchkey-app',
    category: 'Utility',
    synopsis: 'Sign in your AI assistants, and keep their keys in the keychain',
    maintainer: 'The Latchkey authors',
    // Replaces electron-builder's AppRun, which cannot start the proxy.
    extraFiles: [{ from: 'build/AppRun', to: 'AppRun' }],
  },
  deb: { fpm: ['--exclude', 'opt/Latchkey/AppRun'] },
  /** Checks that the AppImage has our AppRun, which electron-builder does not guarantee. With the default one, assistants would start Electron. */
  artifactBuildCompleted({ file }: { readonly file: string }): void {
    if (!file.endsWith('.AppImage')) return;
    const folder = mkdtempSync(join(tmpdir(), 'latchkey-appimage-'));
    try {
      execFileSync(file, ['--appimage-extract', 'AppRun'], { cwd: folder, stdio: 'ignore' });
      const found = readFileSync(join(folder, 'squashfs-root/AppRun'));
      if (!found.equals(readFileSync(join(import.meta.dirname, 'AppRun'))))
        throw new Error(`${file} does not begin with tray-app/build/AppRun`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};
