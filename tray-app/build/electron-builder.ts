import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** As much as we read of what electron-builder passes to a hook. */
type PackContext = { readonly electronPlatformName: string; readonly arch: number };

/** electron-builder's numbers of architectures. */
const arches: Record<number, string> = { 0: 'ia32', 1: 'x64', 2: 'armv7l', 3: 'arm64' };

/**
 * The packages of the app, which `npm run app` lays out. Paths are relative to `tray-app`. The environment names what signs:
 * CSC_LINK and CSC_KEY_PASSWORD, WIN_CSC_LINK, APPLE_API_KEY and its relatives.
 *
 * electron-builder 26, "Configuration"
 */
export default {
  appId: 'dev.latchkey.app',
  productName: 'Latchkey',
  copyright: 'The Latchkey authors, MIT',
  directories: { app: 'dist/app', output: 'dist/packages', buildResources: 'build' },
  icon: 'icon.png',
  // Without a version, so that an update takes the place that assistants start it from.
  artifactName: 'Latchkey-${os}-${arch}.${ext}',
  asar: true,
  asarUnpack: ['**/*.node'],
  // The keychain's library is built already, for any Node and Electron.
  npmRebuild: false,

  electronFuses: {
    // Any program could otherwise run its own code as ours, and read the keychain as ours.
    runAsNode: false,
    enableNodeOptionsEnvironmentVariable: false,
    enableNodeCliInspectArguments: false,
    enableEmbeddedAsarIntegrityValidation: true,
    onlyLoadAppFromAsar: true,
    // The pages come from a scheme of their own.
    grantFileProtocolExtraPrivileges: false,
    // There are no cookies, and their key would be one more entry in the person's keychain.
    enableCookieEncryption: false,
    loadBrowserProcessSpecificV8Snapshot: false,
  },

  /** The proxy as one executable: what assistants start, as the app's own does not run as Node. */
  extraResources: [
    { from: '../dist/sea/${platform}-${arch}', to: '.', filter: ['latchkey', 'latchkey.exe'] },
  ],
  /** For electron-builder, a missing resource would only be a warning. */
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
    // The default ones of electron-builder turn off the validation of libraries.
    entitlements: 'build/entitlements.mac.plist',
    entitlementsInherit: 'build/entitlements.mac.plist',
    binaries: ['Contents/Resources/latchkey'],
    extendInfo: { LSUIElement: true },
  },
  win: { target: ['nsis'] },
  // For one user, as their keychain is. An update ends the running app and replaces it.
  nsis: { oneClick: true, perMachine: false },
  linux: {
    target: ['AppImage', 'deb'],
    executableName: 'latchkey-app',
    category: 'Utility',
    synopsis: 'Sign in your AI assistants, and keep their keys in the keychain',
    maintainer: 'The Latchkey authors',
    // Replaces the one of electron-builder, which cannot start the proxy.
    extraFiles: [{ from: 'build/AppRun', to: 'AppRun' }],
  },
  deb: { fpm: ['--exclude', 'opt/Latchkey/AppRun'] },
  /** electron-builder does not guarantee that our AppRun is used. With its own, an assistant would start Electron. */
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
