import { existsSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { run, unpack } from '#support/packages';

/** The scripts of both programs, as they are published. `node` runs them. */
export interface Build {
  readonly name: string;
  readonly server: string;
  readonly proxy: string;
}

/**
 * Unpacks the packages of `from` into `folder`. `from` is a checkout with its dependencies installed, whose packages are built first, or a
 * folder that `npm run build` has filled. The packages use the dependencies of this checkout.
 */
export async function unpackedBuild(name: string, from: string, folder: string): Promise<Build> {
  const own = join(folder, name);
  const script = join(resolve(from), 'scripts/build.ts');
  const packed = existsSync(script) ? join(own, 'packed') : resolve(from);
  await mkdir(own, { recursive: true });
  if (existsSync(script))
    await run(process.execPath, [script, '--installed-only', packed], resolve(from));
  const packages = (await readdir(packed)).filter((file) => file.endsWith('.tgz'));
  if (packages.length !== 2) throw new Error(`${packed} has not the packages of one build`);
  for (const file of packages) await unpack(join(packed, file), own);
  const launcher = (program: string) => join(own, 'node_modules', program, `bin/${program}.js`);
  return { name, server: launcher('latchkey-server'), proxy: launcher('latchkey') };
}
