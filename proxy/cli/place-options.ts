import type { OptionName } from '#config/options';

/** The options that say where a connection and its secrets are kept, and how it is reached. */
export const placeOptions: readonly OptionName[] = [
  'config',
  'secret-store',
  'secret-store-key-file',
  'state-dir',
  'proxy',
  'ca-file',
  'client-certificate-file',
  'client-key-file',
];
