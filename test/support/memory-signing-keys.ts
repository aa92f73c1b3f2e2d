import { randomBytes } from 'node:crypto';

import type { Clock } from '#server/clock/clock';
import { masterKey } from '#server/signing/master-key';
import {
  readSigningKeys,
  type SigningKeys,
  type SigningKeyStore,
  type StoredSigningKey,
} from '#server/signing/signing-key';

/** A SigningKeyStore in memory, newest first as the port says. */
export function memorySigningKeyStore(): SigningKeyStore & { readonly keys: StoredSigningKey[] } {
  const keys: StoredSigningKey[] = [];
  return {
    keys,
    list: async () => keys.toSorted((a, b) => b.createdAt - a.createdAt),
    add: async (key) => void keys.push(key),
  };
}

/** Real signing keys that nothing keeps. */
export function freshSigningKeys(clock: Clock): Promise<SigningKeys> {
  const master = masterKey(randomBytes(32));
  return readSigningKeys(memorySigningKeyStore(), { masterKey: master, clock });
}
