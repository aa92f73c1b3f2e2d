import { join } from 'node:path';

import { openStores, type OpenStores } from '#server/stores';
import { temporaryFolder } from './temporary-folder.ts';

/** Every store over a new database of its own, gone with its `await using` scope. */
export async function openDatabase(): Promise<OpenStores & AsyncDisposable> {
  const folder = await temporaryFolder('database');
  const stores = await openStores(join(folder.path, 'data'));
  return {
    ...stores,
    async [Symbol.asyncDispose]() {
      await stores.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}
