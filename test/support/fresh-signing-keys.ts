import { randomBytes } from 'node:crypto';

import type { Clock } from '#server/model/clock';
import { masterKey } from '#server/secrets/master-key';
import { readSigningKeys, type SigningKeys } from '#server/oauth/signing-keys';
import { openDatabase } from './open-database.ts';

/** New signing keys whose database is gone already. */
export async function freshSigningKeys(clock: Clock): Promise<SigningKeys> {
  await using stores = await openDatabase();
  return await readSigningKeys(stores.db, { masterKey: masterKey(randomBytes(32)), clock });
}
