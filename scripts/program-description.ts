/** The description that a server reads before it offers a program for download: `FILE.json` beside FILE. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Writes the version of this source tree and the SHA-256 of `file` into `FILE.json`. */
export function describeProgram(file: string): void {
  const manifest = join(import.meta.dirname, '../proxy/package.json');
  const { version }: { version: string } = JSON.parse(readFileSync(manifest, 'utf8'));
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  writeFileSync(`${file}.json`, `${JSON.stringify({ version, sha256 })}\n`);
}
