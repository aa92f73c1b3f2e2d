import { mkdir, symlink } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { z } from 'zod';
import { runProgram } from './processes.ts';

const root = join(import.meta.dirname, '../..');
const timeoutMs = 240_000;
const manifest = z.object({ name: z.string(), dependencies: z.record(z.string(), z.string()) });

export interface Packages {
  readonly proxy: string;
  readonly server: string;
}

/**
 * The paths of the npm packages of both programs, as they are published. If the run has not built them yet, they are
 * made in `folder`. The bundle in the server's package has the keychain library of this platform only.
 */
export async function builtPackages(folder: string): Promise<Packages> {
  const [ownProxy, ownServer] = process.env['TEST_PACKAGES']?.split(delimiter) ?? [];
  if (ownProxy !== undefined && ownServer !== undefined)
    return { proxy: ownProxy, server: ownServer };
  const build = [join(root, 'scripts/build.ts'), '--installed-only', folder];
  const [proxy = '', server = ''] = (await run(process.execPath, build, root)).split('\n');
  return { proxy, server };
}

/** Installs packages into `folder`, which it makes, without running install scripts. */
export async function install(
  folder: string,
  packages: readonly string[],
  env: Record<string, string> = {},
): Promise<void> {
  await mkdir(folder, { recursive: true });
  const options = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'];
  // Without `--prefix`, npm installs into the nearest folder above that has a package.json.
  await run('npm', ['install', ...options, '--prefix', folder, ...packages], folder, env);
}

/**
 * Puts the content of a package into `node_modules` of `folder`, with links to its dependencies as the repository has installed them,
 * so that nothing is fetched.
 */
export async function unpack(packed: string, folder: string): Promise<void> {
  const text = await run('tar', ['-xzOf', packed, 'package/package.json'], folder);
  const { name, dependencies } = manifest.parse(JSON.parse(text));
  const place = join(folder, 'node_modules', name);
  await mkdir(place, { recursive: true });
  await run('tar', ['-xzf', packed, '--strip-components=1'], place);
  for (const dependency of Object.keys(dependencies)) {
    const link = join(folder, 'node_modules', dependency);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, 'node_modules', dependency), link);
  }
}

/** The files of a package, sorted. */
export async function filesOf(packed: string): Promise<string[]> {
  const listed = await run('tar', ['-tzf', packed], root);
  return listed
    .trim()
    .split('\n')
    .map((path) => path.replace(/^package\//, ''))
    .sort();
}

/** Installs a release of Node from the registry into `folder`, and returns the path of its binary. */
export async function nodeRelease(folder: string, version: string): Promise<string> {
  const { platform, arch } = process;
  const name = `node-${platform === 'win32' ? 'win' : platform}-${arch}`;
  await install(folder, [`${name}@${version}`]);
  return join(folder, 'node_modules', name, 'bin', platform === 'win32' ? 'node.exe' : 'node');
}

/** The output of a command. @throws when it fails */
export async function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<string> {
  const { code, stdout, stderr } = await runProgram(command, { args, cwd, env, timeoutMs });
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}: ${stderr}`);
  return stdout;
}
