import type { Clock } from '#clock/clock';
import type { MasterKey } from './master-key.ts';
import { newSigningKey, overlapSeconds, type SigningKeyRotation } from './signing-key.ts';

/**
 * Makes a new key that signs from now on. The one before verifies what it signed for longer than that
 * lasts; then its private half is removed. The new key's id.
 */
export async function rotateSigningKey(
  store: SigningKeyRotation,
  { masterKey, clock }: { masterKey: MasterKey; clock: Clock },
): Promise<string> {
  const key = await newSigningKey(masterKey, clock);
  await store.rotate(key, clock.now() - overlapSeconds);
  return key.kid;
}
