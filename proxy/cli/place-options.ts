import type { OptionName } from '#config/options';

/** The options that say where a connection and its secrets are kept. */
export const placeOptions: readonly OptionName[] = [
  'config',
  'secret-store',
  'secret-store-key-file',
  'state-dir',
];
