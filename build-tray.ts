import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';

const source = join(import.meta.dirname, 'tray-app');

/**
 * Builds the tray app into `folder`: main.js, preload.cjs, which a sandboxed page's preload has to be, the
 * pages, and the icons. Electron and the keychain's library stay outside, and what `more` names.
 */
export async function buildTray(folder: string, more: readonly string[] = []): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  const pages = join(folder, 'windows');
  mkdirSync(pages, { recursive: true });
  const outside = new Set(['electron', '@napi-rs/keyring', ...more]);
  const minify = {
    compress: true,
    mangle: false,
    codegen: { removeWhitespace: true },
  } as const;
  const main = await rolldown({
    input: join(source, 'main.ts'),
    platform: 'node',
    resolve: { alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' } },
    external: (id) => id.startsWith('node:') || outside.has(id),
  });
  await main.write({
    dir: folder,
    format: 'esm',
    codeSplitting: false,
    entryFileNames: 'main.js',
    minify,
  });
  await main.close();
  const preload = await rolldown({
    input: join(source, 'preload.ts'),
    platform: 'browser',
    external: ['electron'],
  });
  await preload.write({
    dir: folder,
    format: 'cjs',
    codeSplitting: false,
    entryFileNames: 'preload.cjs',
    minify,
  });
  await preload.close();
  const files = readdirSync(join(source, 'windows'));
  for (const html of files.filter((file) => file.endsWith('.html'))) {
    const name = html.replace('.html', '');
    const page = await rolldown({
      input: join(source, 'windows', `${name}.ts`),
      platform: 'browser',
    });
    await page.write({
      dir: pages,
      format: 'esm',
      codeSplitting: false,
      entryFileNames: `${name}.js`,
      minify,
    });
    await page.close();
  }
  for (const file of files.filter((name) => /\.(html|css)$/.test(name)))
    cpSync(join(source, 'windows', file), join(pages, file));
  cpSync(join(source, 'icons'), join(folder, 'icons'), {
    recursive: true,
    filter: (path) => !path.endsWith('.ts'),
  });
}
