import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleProgram, type BundledProgram } from './bundled.ts';
import { proxyPackage } from './proxy-package.ts';
import { sbomOf } from './sbom.ts';

/**
 * `npm run build`: dist/main.js of the two published programs, each with the bill of materials of what is
 * bundled in it. With the server goes the proxy's package, which it hands out.
 */
function write(folder: 'proxy' | 'server', { code, modules }: BundledProgram): string {
  const dist = join(import.meta.dirname, folder, 'dist');
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist);
  writeFileSync(join(dist, 'main.js'), code);
  writeFileSync(join(dist, 'sbom.cdx.json'), sbomOf(folder, modules));
  return dist;
}

const proxy = await bundleProgram('proxy');
const server = await bundleProgram('server');
write('proxy', proxy);
const dist = write('server', server);
const { name, bytes } = await proxyPackage(proxy);
writeFileSync(join(dist, name), bytes);
