import type { AccountsHost } from '#auth/accounts-host';
import { resolve } from 'node:path';
import { defaultStateDirectory } from './default-state-directory.ts';
import { declarations, optionNames, type Options, type OptionTexts } from './options.ts';
import { registryFile } from './registry-file.ts';

/**
 * What the proxy has to be told when an assistant starts it, as assistants pass on six variables and
 * the XDG ones are none of them: that, and the options that were given. Mostly nothing.
 */
export function launchEnvironment(
  options: Options,
  given: OptionTexts,
  host: AccountsHost,
): Record<string, string> {
  const { stateDir, secretStore, secretStoreKeyFile } = options;
  const bare = host.platform === 'linux' ? { ...host, env: {} } : host;
  const file = registryFile(host);
  const state = stateDir ?? defaultStateDirectory(host);
  const typed = optionNames
    .filter((name) => name !== 'config')
    .flatMap((name) => {
      const value = given[name];
      if (value === undefined) return [];
      const path = name.endsWith('-file') || name.endsWith('-dir');
      return [[declarations[name].env, path ? resolve(value) : value]];
    });
  return {
    ...Object.fromEntries(typed),
    ...(file !== registryFile(bare) && { LATCHKEY_CONFIG: file }),
    ...(state !== defaultStateDirectory(bare) && { LATCHKEY_STATE_DIR: resolve(state) }),
    ...(secretStore !== 'os' && { LATCHKEY_SECRET_STORE: secretStore }),
    ...(secretStoreKeyFile !== undefined && {
      LATCHKEY_SECRET_STORE_KEY_FILE: resolve(secretStoreKeyFile),
    }),
  };
}
