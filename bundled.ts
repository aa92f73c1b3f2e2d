import type { InputOptions } from 'rolldown';

/** How what we publish is bundled, whatever it is published as. */
export const bundled = {
  platform: 'node',
  // The other build of jsonc-parser looks for its parts while it runs.
  resolve: { alias: { 'jsonc-parser': 'jsonc-parser/lib/esm/main.js' } },
} as const satisfies InputOptions;
