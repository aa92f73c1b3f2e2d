import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The proxy in the sources that the app at `here` was built from, where it was built from any. */
export function sourcesLauncher(here: string, node: string): { node: string; script: string } {
  const script = join('proxy', 'bin', 'latchkey.js');
  let folder = here;
  while (!existsSync(join(folder, script)) && folder !== dirname(folder)) folder = dirname(folder);
  return { node, script: join(folder, script) };
}
