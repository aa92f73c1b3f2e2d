import { sqliteAdmissions } from '#server/store/sqlite/admission-store';
import { openStores } from '#server/stores';
import { temporaryFolder } from '#support/temporary-folder';
import { grantStoresContract } from './grant-stores.ts';

grantStoresContract('SQLite', async () => {
  const folder = await temporaryFolder('grants');
  const stores = await openStores(folder.path);
  return {
    ...stores,
    admissions: sqliteAdmissions(stores.connection),
    async [Symbol.asyncDispose]() {
      await stores.close();
      await folder[Symbol.asyncDispose]();
    },
  };
});
