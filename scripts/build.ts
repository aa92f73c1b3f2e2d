/**
 * `npm run build [FOLDER]`: the two npm packages, `latchkey-VERSION.tgz` and `latchkey-server-VERSION.tgz`, and the bundle
 * `latchkey-VERSION.mcpb`, in `dist` or in FOLDER. `npm publish FILE` publishes the packages; a workspace is private. It prints the
 * paths in this order. As in `mcpb.ts`, `--installed-only` fetches nothing.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { proxyBundle } from './mcpb.ts';
import { proxyPackage, serverPackage } from './pack.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'installed-only': { type: 'boolean', default: false } },
});
const folder = resolve(positionals[0] ?? join(import.meta.dirname, '../dist'));
const proxy = await proxyPackage();
const bundle = proxyBundle(proxy, { installedOnly: values['installed-only'] });
mkdirSync(folder, { recursive: true });
for (const { name, bytes } of [proxy, await serverPackage(proxy, bundle), bundle]) {
  const file = join(folder, name);
  writeFileSync(file, bytes);
  process.stdout.write(`${file}\n`);
}
