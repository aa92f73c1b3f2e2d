import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleProgram, type BundledProgram } from './bundled.ts';
import { sbomOf } from './sbom.ts';

/**
 * `npm run build`: dist/main.js of the two published programs, each with the bill of materials of what is
 * bundled in it.
 */
function write(folder: 'proxy' | 'server', { code, modules }: BundledProgram): void {
  const dist = join(import.meta.dirname, folder, 'dist');
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist);
  writeFileSync(join(dist, 'main.js'), code);
  writeFileSync(join(dist, 'sbom.cdx.json'), sbomOf(folder, modules));
}

for (const folder of ['proxy', 'server'] as const) write(folder, await bundleProgram(folder));
