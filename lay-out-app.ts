import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = import.meta.dirname;
const library = '@napi-rs/keyring';

/**
 * Completes `folder`, which holds the built app, to what becomes app.asar: a description, and of packages
 * the keychain's library alone. Without any, electron-builder would take those of the whole workspace.
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
