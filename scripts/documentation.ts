/** `npm run docs`: writes the pages of `docs/` that follow from the commands' declarations. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandPages } from './command-pages.ts';

const folder = join(import.meta.dirname, '../docs');
for (const [name, text] of Object.entries(await commandPages())) {
  const file = join(folder, name);
  writeFileSync(file, text);
  process.stdout.write(`${file}\n`);
}
