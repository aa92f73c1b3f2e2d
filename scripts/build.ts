/**
 * `npm run build`: bundles the two published programs into `dist/main.js` of their folders, each with the bill of materials of
 * what is bundled in it. The server gets the proxy's package as well, because it offers that for download.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleProgram, type BundledProgram } from './bundle.ts';
import { proxyPackage } from './pack.ts';
import { sbomOf } from './sbom.ts';

const root = join(import.meta.dirname, '..');

const proxy = await bundleProgram('proxy');
write('proxy', proxy);
const serverFolder = write('server', await bundleProgram('server'));
const { name, bytes } = await proxyPackage(proxy);
writeFileSync(join(serverFolder, name), bytes);

function write(folder: 'proxy' | 'server', { code, modules }: BundledProgram): string {
  const dist = join(root, folder, 'dist');
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist);
  writeFileSync(join(dist, 'main.js'), code);
  writeFileSync(join(dist, 'sbom.cdx.json'), sbomOf(folder, modules));
  return dist;
}
