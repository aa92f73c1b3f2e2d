import { execFile } from 'node:child_process';
import { lstat, readdir } from 'node:fs/promises';
import { basename, isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';
import { builtPackages } from '#support/packages';
import { temporaryFolder } from '#support/temporary-folder';

const run = promisify(execFile);

/**
 * The bytes and the number of packages that `npm install` puts on a disk for one package. `installs` may be
 * the folder of a workspace instead of a package name. Needs the registry.
 */
export async function installCost(
  installs: string,
): Promise<{ readonly bytes: number; readonly packages: number }> {
  await using folder = await temporaryFolder('install');
  const { path } = folder;
  const npm = async (...args: string[]) =>
    run('npm', [...args, '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: path });
  let wanted = installs;
  if (isAbsolute(installs)) {
    const { proxy, server } = await builtPackages(join(path, 'packed'));
    wanted = basename(installs) === 'server' ? server : proxy;
  }
  await npm('init', '--yes', '--silent');
  await npm('install', wanted, '--silent');
  const lock = await readdir(join(path, 'node_modules'), { recursive: true, withFileTypes: true });
  const manifests = lock.filter(
    ({ name, parentPath }) =>
      name === 'package.json' && /node_modules\/(@[^/]+\/)?[^/]+$/.test(parentPath),
  );
  let bytes = 0;
  for (const entry of lock)
    if (entry.isFile()) bytes += (await lstat(join(entry.parentPath, entry.name))).size;
  return { bytes, packages: manifests.length };
}
