/** `npm run golden`: writes what the programs print and answer to `expected/`, which a test compares with. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { record } from './record.ts';

const folder = join(import.meta.dirname, 'expected');
const recorded = await record();
await rm(folder, { recursive: true, force: true });
for (const [name, text] of recorded) {
  const file = join(folder, name);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}
process.stdout.write(`${recorded.size} files in ${folder}\n`);
