import { createHash } from 'node:crypto';
import { existsSync, realpathSync } from 'node:fs';
import { cp, lstat, mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { userInfo } from 'node:os';
import { dirname, join, posix, win32 } from 'node:path';
import type { Host, UserHost, Launcher } from '#host';
import { writeAtomically } from '#atomic-file';
import { UsageError } from '#config/errors';
import { shellWord } from '#shell-word';

/** The folder for copies of this program, which assistants start. */
export function dataFolder({ platform, home, env }: UserHost): string {
  const path = platform === 'win32' ? win32 : posix;
  if (platform === 'darwin') return path.join(home, 'Library', 'Application Support', 'Latchkey');
  if (platform === 'win32')
    return path.join(env['LOCALAPPDATA'] || path.join(home, 'AppData', 'Local'), 'Latchkey');
  return path.join(env['XDG_DATA_HOME'] || path.join(home, '.local', 'share'), 'latchkey');
}

/** How long a copy is kept after it was replaced, because a proxy that runs from it may still load the keychain's library. */
const keptSeconds = 7 * 24 * 60 * 60;

/** A file in a replaced copy that contains the time of the replacement, in seconds since 1970. */
const replacedFile = 'replaced-at';

/**
 * A launcher that assistants can start for years. npm keeps this program in the folder of one version of Node, or in a cache,
 * where an update of Node, or npx itself, deletes it. So the package is copied to the user's data folder, each version to its
 * own folder. No entry of an assistant contains the path of a copy: a script beside the copies runs the newest, and finds a
 * Node for it if there is a shell. A single executable and a checkout of the source stay where they are.
 *
 * @throws {UsageError} if the data folder belongs to another user, or others may write to it
 */
export async function stableLauncher(
  { launcher, ...host }: UserHost & Pick<Host, 'launcher' | 'clock' | 'pid'>,
  data = dataFolder(host),
): Promise<Launcher> {
  // Node resolves links before it names a script, so this is the real path.
  if (!('script' in launcher) || !/[\\/]node_modules[\\/]/.test(launcher.script)) return launcher;
  const copies = join(data, 'app');
  for (const folder of [data, copies]) await ownFolder(folder, host.platform);
  const packageFolder = join(dirname(launcher.script), '..');
  const name = await copyName(packageFolder);
  const copy = join(copies, name);
  if (!existsSync(copy)) await copyPackage(packageFolder, copy, host.pid);
  const inCopy = ['node_modules', 'latchkey', 'bin', 'latchkey.js'];
  const bin = join(data, 'bin');
  await ownFolder(bin, host.platform);
  if (host.platform === 'win32') {
    const script = join(bin, 'latchkey.js');
    await replaceProgram(script, windowsScript(['..', 'app', name, ...inCopy]));
    await removeOld(copies, name, host.clock.now());
    return { node: launcher.node, script };
  }
  const program = join(bin, 'latchkey');
  await replaceProgram(program, launcherScript(launcher.node, join(copy, ...inCopy)));
  await removeOld(copies, name, host.clock.now());
  return { program };
}

/** Removes the copies, for when no assistant starts them any more. */
export async function removeStableLauncher(host: UserHost): Promise<void> {
  const data = dataFolder(host);
  await rm(join(data, 'bin'), { recursive: true, force: true });
  await rm(join(data, 'app'), { recursive: true, force: true });
}

/** Creates a folder that only this user can write to. Refuses an existing folder that others can write to. */
async function ownFolder(folder: string, platform: NodeJS.Platform): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  if (platform === 'win32') return;
  const found = await lstat(folder);
  if (found.isDirectory() && found.uid === userInfo().uid && (found.mode & 0o022) === 0) return;
  throw new UsageError(
    `${folder} is not a folder that only you can write to`,
    `change its owner and permissions, or remove the folder: assistants start Latchkey from there`,
  );
}

/**
 * The folder name of a copy. It also depends on the contents, because local builds keep the version number. Hashing `main.js`
 * is enough, because it names the other files by their hashes.
 */
async function copyName(packageFolder: string): Promise<string> {
  const { version }: { version: string } = JSON.parse(
    await readFile(join(packageFolder, 'package.json'), 'utf8'),
  );
  const program = await readFile(join(packageFolder, 'dist', 'main.js'));
  return `${version}-${createHash('sha256').update(program).digest('hex').slice(0, 12)}`;
}

/** Copies the package and what it loads at run time, in the layout of npm: completely or not at all. */
async function copyPackage(packageFolder: string, copy: string, pid: number): Promise<void> {
  const making = `${copy}.${pid}.tmp`;
  await rm(making, { recursive: true, force: true });
  const modules = join(making, 'node_modules');
  const packages: [name: string, folder: string][] = [
    ['latchkey', packageFolder],
    ...keychainPackages(packageFolder),
  ];
  for (const [name, folder] of packages)
    await cp(folder, join(modules, name), {
      recursive: true,
      dereference: true,
      filter: (path) => !path.slice(folder.length).includes('node_modules'),
    });
  try {
    await rename(making, copy);
  } catch (error) {
    await rm(making, { recursive: true, force: true });
    // Another process has created the same copy.
    if (!existsSync(copy)) throw error;
  }
}

/** The binding of the keychain and the binary of this platform, if npm installed them. */
function keychainPackages(packageFolder: string): [name: string, folder: string][] {
  const name = '@napi-rs/keyring';
  const binding = folderOf(name, packageFolder);
  if (binding === undefined) return [];
  const { optionalDependencies = {} }: { optionalDependencies?: Record<string, string> } =
    createRequire(join(binding, 'package.json'))('./package.json');
  const binaries = Object.keys(optionalDependencies).flatMap((binary): [string, string][] => {
    const folder = folderOf(binary, binding);
    return folder === undefined ? [] : [[binary, folder]];
  });
  return [[name, binding], ...binaries];
}

/** The folder of a package as Node resolves it from another. Links are followed, because pnpm creates some. */
function folderOf(name: string, from: string): string | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    const found = join(folder, 'node_modules', name);
    if (existsSync(join(found, 'package.json'))) return realpathSync(found);
    if (dirname(folder) === folder) return undefined;
  }
}

/** Removes the copies that were replaced long ago, and marks the others except `current` as replaced. */
async function removeOld(copies: string, current: string, now: number): Promise<void> {
  await rm(join(copies, current, replacedFile), { force: true });
  for (const name of await readdir(copies)) {
    if (name === current) continue;
    const folder = join(copies, name);
    const replacedAt = Number(await readFile(join(folder, replacedFile), 'utf8').catch(() => ''));
    if (!(replacedAt > 0 && replacedAt <= now))
      await writeFile(join(folder, replacedFile), String(now)).catch(() => undefined);
    else if (now - replacedAt > keptSeconds) await rm(folder, { recursive: true, force: true });
  }
}

async function replaceProgram(path: string, text: string): Promise<void> {
  if ((await readFile(path, 'utf8').catch(() => '')) === text) return;
  await writeAtomically(path, text, { mode: 0o755, durable: false });
}

/** A script for Node, because on Windows assistants cannot start shell scripts. */
function windowsScript(path: readonly string[]): string {
  return `// Starts Latchkey. Written by \`latchkey install\`; \`latchkey uninstall\` removes it.
import(new URL(${JSON.stringify(path.map(encodeURIComponent).join('/'))}, require('node:url').pathToFileURL(__filename)).href);
`;
}

/** The usual folders of Node, for assistants that start us with a short PATH. A pattern matches versions in the order of their names. */
const usualNodes = [
  '/opt/homebrew/bin/node',
  '/usr/local/bin/node',
  '/usr/bin/node',
  '/snap/bin/node',
  '"$HOME"/.volta/bin/node',
  '"$HOME"/.local/share/mise/shims/node',
  '"$HOME"/.asdf/shims/node',
  '"$HOME"/.nvm/versions/node/*/bin/node',
  '"$HOME"/.local/share/fnm/node-versions/*/installation/bin/node',
  '"$HOME/Library/Application Support"/fnm/node-versions/*/installation/bin/node',
];

/**
 * A script for `sh` that runs `script` with the Node of the installation or, if that no longer exists, with another one that is
 * new enough.
 */
function launcherScript(node: string, script: string): string {
  return `#!/bin/sh
# Starts Latchkey with Node.js. Written by \`latchkey install\`; \`latchkey uninstall\` removes it.
node=${shellWord(node)}
script=${shellWord(script)}
HOME=\${HOME:-/}
if [ ! -x "$node" ]; then
  node=
  for found in "$(command -v node)" \\
    ${usualNodes.join(' \\\n    ')}
  do
    [ -x "$found" ] || continue
    "$found" -e 'const [a, b] = process.versions.node.split("."); if (a < 22 || (a == 22 && b < 19)) throw a' </dev/null >/dev/null 2>&1 && node=$found
    [ -z "$node" ] || break
  done
fi
if [ -z "$node" ]; then
  echo 'latchkey: found no Node.js 22.19 or newer' >&2
  echo 'hint: install Node.js, then run: latchkey doctor' >&2
  exit 127
fi
exec "$node" "$script" "$@"
`;
}
