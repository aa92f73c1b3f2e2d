/**
 * Builds the tray app. `npm run tray` starts it from the sources; `npm run app` writes `tray-app/dist/packages`, for people without
 * Node. Arguments of `npm run app` go to electron-builder: `npm run app -- --linux AppImage`.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type InputOptions, rolldown } from 'rolldown';
import { pageDocument, stylesheets, windowNames } from '../tray-app/model/windows.ts';
import { bundled, minified, modulesOf } from './bundle.ts';
import { describeProgram } from './program-description.ts';
import { sbomOf } from './sbom.ts';

const root = join(import.meta.dirname, '..');
const tray = join(root, 'tray-app');
const library = '@napi-rs/keyring';

/**
 * Builds the tray app into `folder`: main.js, the preload (CommonJS, as sandboxed pages require), the pages,
 * the icons, and the bill of materials of the bundled packages. Electron, the keychain's library and the
 * packages in `more` are not bundled.
 */
export async function buildTray(folder: string, more: readonly string[] = []): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  const pages = join(folder, 'pages');
  mkdirSync(pages, { recursive: true });
  const outside = new Set(['electron', '@napi-rs/keyring', ...more]);
  const main = join(tray, 'main/main.ts');
  const external = (id: string) => id.startsWith('node:') || outside.has(id);
  const modules = await bundle({ input: main, ...bundled, external }, join(folder, 'main.js'));
  const platform = 'browser';
  const preload = { input: join(tray, 'main/preload.ts'), platform, external: 'electron' } as const;
  modules.push(...(await bundle(preload, join(folder, 'preload.cjs'))));
  for (const name of windowNames) {
    const page = { input: join(tray, 'pages', `${name}.ts`), platform } as const;
    modules.push(...(await bundle(page, join(pages, `${name}.js`))));
    writeFileSync(join(pages, `${name}.html`), pageDocument(name));
  }
  writeFileSync(join(folder, 'sbom.cdx.json'), sbomOf('tray-app', modules));
  for (const file of stylesheets) cpSync(join(tray, 'pages', file), join(pages, file));
  cpSync(join(tray, 'icons'), join(folder, 'icons'), { recursive: true });
}

/** Writes one file. Returns the modules that went into it. */
async function bundle(options: InputOptions, file: string): Promise<string[]> {
  const build = await rolldown(options);
  const format = file.endsWith('.cjs') ? 'cjs' : 'esm';
  const output = await build.write({ ...minified, file, format, codeSplitting: false });
  await build.close();
  return modulesOf(output);
}

/**
 * Makes the built app in `folder` the complete content of app.asar: adds a package.json, and the keychain's
 * library as the only package. Without a package, electron-builder would take those of the whole workspace.
 */
export function layOutApp(folder: string, { homepage }: { homepage?: string | undefined }): void {
  const proxy: { version: string; dependencies: Record<string, string> } = JSON.parse(
    readFileSync(join(root, 'proxy/package.json'), 'utf8'),
  );
  const { description }: { description: string } = JSON.parse(
    readFileSync(join(root, 'tray-app/package.json'), 'utf8'),
  );
  const described = {
    name: 'latchkey-app',
    version: proxy.version,
    description,
    author: 'The Latchkey authors',
    license: 'MIT',
    homepage,
    type: 'module',
    main: 'main.js',
    dependencies: { [library]: proxy.dependencies[library] },
  };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(described, null, 2));
  const abis: Partial<Record<NodeJS.Platform, string>> = { linux: '-gnu', win32: '-msvc' };
  const binary = `${library}-${process.platform}-${process.arch}${abis[process.platform] ?? ''}`;
  for (const name of [library, binary])
    cpSync(join(root, 'node_modules', name), join(folder, 'node_modules', name), {
      recursive: true,
    });
}

/** Builds the app into `folder`, in the form that Electron starts and that is packaged. */
export async function buildApp(
  folder: string,
  described: { homepage?: string | undefined } = {},
): Promise<void> {
  await buildTray(folder);
  layOutApp(folder, described);
}

/** The path of Electron's binary, or one line that explains why there is none and what would help. */
export type ElectronBinary = { readonly path: string } | { readonly missing: string };

const downloadLimitMs = 10 * 60 * 1000;

/**
 * The program of Electron, which its package downloads on first use, from github.com or ELECTRON_MIRROR.
 * ELECTRON_OVERRIDE_DIST_PATH names a folder that contains it already.
 */
export function electronBinary(env: NodeJS.ProcessEnv): ElectronBinary {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['-e', 'process.stdout.write(`\\n${require("electron")}`)'],
    { cwd: tray, env, encoding: 'utf8', timeout: downloadLimitMs },
  );
  const path = stdout.split('\n').at(-1);
  if (status === 0 && path) return { path };
  const reason = stderr.split('\n').find((line) => /^\w*Error\b/.test(line));
  const why = reason ?? `its package ended with ${status ?? 'nothing within ten minutes'}`;
  return {
    missing:
      `Electron's program could not be had (${why}): it comes from github.com or ELECTRON_MIRROR, ` +
      'and ELECTRON_OVERRIDE_DIST_PATH names a folder that has it',
  };
}

/** Starts the app from the sources. Resolves with the exit code. */
async function start(args: readonly string[]): Promise<number> {
  const found = electronBinary(process.env);
  if ('missing' in found) {
    process.stderr.write(`latchkey: ${found.missing}\n`);
    return 1;
  }
  const folder = join(tray, 'dist/app');
  await buildApp(folder);
  const app = spawn(found.path, [folder, ...args], { stdio: 'inherit' });
  // Ctrl-C reaches the app too. Wait for the app, so that no process is left behind.
  process.on('SIGINT', () => {}).on('SIGTERM', () => app.kill('SIGTERM'));
  return new Promise((resolve) => {
    app.on('exit', (code) => resolve(code ?? 1)).on('error', () => resolve(1));
  });
}

/**
 * Packages the app, its Electron, and the proxy as one executable, on the system that the package is for. electron-builder
 * comes from a lock file of its own, and its install scripts do not run.
 *
 * Electron comes from github.com, from ELECTRON_MIRROR, or from a local folder with `-c.electronDist=FOLDER`. A .deb names the
 * publisher's page, LATCHKEY_HOMEPAGE.
 */
async function packageApp(args: readonly string[]): Promise<number> {
  execFileSync(process.execPath, [join(root, 'scripts/sea.ts')], { stdio: 'inherit' });
  await buildApp(join(tray, 'dist/app'), { homepage: process.env['LATCHKEY_HOMEPAGE'] });
  const builder = electronBuilder();
  const electron = manifest(tray).devDependencies?.['electron'];
  const own = [
    '--config=build/electron-builder.ts',
    `-c.electronVersion=${electron}`,
    '--publish=never',
  ];
  execFileSync(process.execPath, [builder, `--project=${tray}`, ...own, ...args], {
    stdio: 'inherit',
  });
  // A server offers no package for download without its description.
  const packages = join(tray, 'dist/packages');
  for (const name of readdirSync(packages)) {
    if (/^Latchkey-.*\.(?:AppImage|deb|dmg|zip|exe)$/.test(name))
      describeProgram(join(packages, name));
  }
  return 0;
}

type Manifest = { version: string; devDependencies?: Record<string, string> };

function manifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
}

/** The path of electron-builder's command, which is installed from its own lock file if it is missing. */
function electronBuilder(): string {
  const packaging = join(tray, 'build');
  const folder = join(packaging, 'node_modules/electron-builder');
  const wanted = manifest(packaging).devDependencies?.['electron-builder'];
  if (!existsSync(folder) || manifest(folder).version !== wanted)
    execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], {
      cwd: packaging,
      stdio: 'inherit',
      // On Windows, npm is a script, which only a shell starts. The arguments are constants.
      shell: process.platform === 'win32',
    });
  return join(folder, 'cli.js');
}

if (import.meta.main) {
  const [command, ...args] = process.argv.slice(2);
  process.exitCode = await (command === 'package' ? packageApp(args) : start(args));
}
