import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { bundled, modulesOf } from './bundled.ts';
import { sbomOf } from './sbom.ts';
import { pageDocument } from './tray-app/page-document.ts';
import { windowNames } from './tray-app/page-files.ts';

const source = join(import.meta.dirname, 'tray-app');

/**
 * Builds the tray app into `folder`: main.js, preload.cjs, which a sandboxed page's preload has to be, the
 * pages, the icons, and the bill of materials of what is bundled. Electron and the keychain's library stay
 * outside, and what `more` names.
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
    ...bundled,
    external: (id) => id.startsWith('node:') || outside.has(id),
  });
  const modules = modulesOf(
    await main.write({
      dir: folder,
      format: 'esm',
      codeSplitting: false,
      entryFileNames: 'main.js',
      minify,
    }),
  );
  await main.close();
  const preload = await rolldown({
    input: join(source, 'preload.ts'),
    platform: 'browser',
    external: ['electron'],
  });
  modules.push(
    ...modulesOf(
      await preload.write({
        dir: folder,
        format: 'cjs',
        codeSplitting: false,
        entryFileNames: 'preload.cjs',
        minify,
      }),
    ),
  );
  await preload.close();
  for (const name of windowNames) {
    const page = await rolldown({
      input: join(source, 'windows', `${name}.ts`),
      platform: 'browser',
    });
    modules.push(
      ...modulesOf(
        await page.write({
          dir: pages,
          format: 'esm',
          codeSplitting: false,
          entryFileNames: `${name}.js`,
          minify,
        }),
      ),
    );
    await page.close();
    writeFileSync(join(pages, `${name}.html`), pageDocument(name));
  }
  writeFileSync(join(folder, 'sbom.cdx.json'), sbomOf('tray-app', modules));
  for (const file of readdirSync(join(source, 'windows')).filter((one) => one.endsWith('.css')))
    cpSync(join(source, 'windows', file), join(pages, file));
  cpSync(join(source, 'icons'), join(folder, 'icons'), {
    recursive: true,
    filter: (path) => !path.endsWith('.ts'),
  });
}
