import type { PasskeyStore } from './passkey-store.ts';
import { PeopleRefusal } from './people-refusal.ts';
import type { Session } from './session-store.ts';

/**
 * Whoever has a passkey changes how they sign in after a sign-in with two factors only: else who knows the
 * password alone would put a passkey of their own in its place, and pass for two. NIST SP 800-63B-4 §4.1.2
 *
 * @throws {PeopleRefusal} `passkey_first`
 */
export async function checkPasskeyFirst(
  { userId, factors }: Pick<Session, 'userId' | 'factors'>,
  passkeys: Pick<PasskeyStore, 'list'>,
): Promise<void> {
  if (factors === 2 || (await passkeys.list(userId)).length === 0) return;
  throw new PeopleRefusal('passkey_first');
}
