import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** htmx as its authors publish it, for our own path: nothing is loaded from anywhere else. */
export function htmxScript(): string {
  const { resolve } = createRequire(import.meta.url);
  return readFileSync(resolve('htmx.org/dist/htmx.esm.min.js'), 'utf8').replace(
    /\n\/\/# sourceMappingURL=.*\s*$/,
    '\n',
  );
}
