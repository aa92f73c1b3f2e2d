import { join } from 'node:path';
import { listSigningKeys } from '#db/signing-keys';
import type { Db } from '#db/transaction';
import { accessTokens } from '#oauth/access-tokens';
import { KeyRing } from '#oauth/signing-keys';
import { readMasterKey } from '#secrets/master-key';
import type { Closers } from './closers.ts';
import type { ServeOptions } from './serve-options.ts';

/** Reads the master key, and with it the signing keys. Creates both where the database has no signing key yet. */
export async function openKeys(
  { base, dataDir, clock, log, ...options }: ServeOptions,
  db: Db,
  closers: Closers,
) {
  const masterKeyFile = options.masterKeyFile ?? join(dataDir, 'master.key');
  const mayCreate = (await listSigningKeys(db)).length === 0;
  const masterKey = readMasterKey(masterKeyFile, { mayCreate });
  const keys = await KeyRing.open(db, {
    masterKey,
    clock,
    failed: (err) => log.error({ err }, 'signing keys not read'),
  });
  closers.push(async () => keys.close());
  const tokens = accessTokens(base, { keys, refreshKeys: () => keys.refresh(), clock });
  return { masterKey, keys, tokens };
}
