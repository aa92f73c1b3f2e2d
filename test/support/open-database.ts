import { openStoresAt, type OpenStores } from '#server/app/stores';

/** Every store over a new database in memory, gone with its `await using` scope. */
export async function openDatabase(): Promise<OpenStores & AsyncDisposable> {
  const stores = await openStoresAt(':memory:');
  return { ...stores, [Symbol.asyncDispose]: () => stores.close() };
}
