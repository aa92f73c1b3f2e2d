import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { bundled } from './bundled.ts';

const root = import.meta.dirname;

/** Bundles one published package into one file, dist/main.js; what it depends on at run time stays outside. */
async function bundle(name: string): Promise<void> {
  const directory = join(root, name);
  const { dependencies = {} }: { dependencies?: Record<string, string> } = JSON.parse(
    readFileSync(join(directory, 'package.json'), 'utf8'),
  );
  const external = new Set(Object.keys(dependencies));
  const build = await rolldown({
    input: join(directory, 'main.ts'),
    ...bundled,
    external: (id) =>
      id.startsWith('node:') ||
      external.has(
        id
          .split('/')
          .slice(0, id.startsWith('@') ? 2 : 1)
          .join('/'),
      ),
  });
  rmSync(join(directory, 'dist'), { recursive: true, force: true });
  await build.write({
    dir: join(directory, 'dist'),
    format: 'esm',
    codeSplitting: false,
    minify: { compress: true, mangle: false, codegen: { removeWhitespace: true } },
    entryFileNames: 'main.js',
  });
  await build.close();
}

for (const name of ['proxy', 'server'])
  if (existsSync(join(root, name, 'main.ts'))) await bundle(name);
