/**
 * `npm run build [FOLDER]`: the two npm packages, `latchkey-VERSION.tgz` and `latchkey-server-VERSION.tgz`, in `dist` or in FOLDER.
 * `npm publish FILE` publishes them; a workspace is private. It prints the paths, the proxy first.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { proxyPackage, serverPackage } from './pack.ts';

const folder = resolve(process.argv[2] ?? join(import.meta.dirname, '../dist'));
const proxy = await proxyPackage();
mkdirSync(folder, { recursive: true });
for (const { name, bytes } of [proxy, await serverPackage(proxy)]) {
  const file = join(folder, name);
  writeFileSync(file, bytes);
  process.stdout.write(`${file}\n`);
}
