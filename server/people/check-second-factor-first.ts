import type { IdentityProvider } from './identity-provider.ts';
import type { IdentityStore } from './identity-store.ts';
import type { PasskeyStore } from './passkey-store.ts';
import { PeopleRefusal } from './people-refusal.ts';
import type { Session } from './session-store.ts';

export interface SecondFactorFirstPorts {
  readonly passkeys: Pick<PasskeyStore, 'list'>;
  readonly identities: Pick<IdentityStore, 'isLinked'>;
  /** Where single sign-on is configured. */
  readonly identityProvider: Pick<IdentityProvider, 'issuer'> | undefined;
}

/**
 * Whoever has a passkey or a linked account of the OpenID provider changes how they sign in after a sign-in with
 * two factors only: else who knows the password alone would put a way of their own in its place, and pass for two.
 * An authenticator app need not be looked for, as no password signs in without its code. NIST SP 800-63B-4 §4.1.2
 *
 * @throws {PeopleRefusal} `passkey_first`, `provider_first`
 */
export async function checkSecondFactorFirst(
  { userId, factors }: Pick<Session, 'userId' | 'factors'>,
  { passkeys, identities, identityProvider: provider }: SecondFactorFirstPorts,
): Promise<void> {
  if (factors === 2) return;
  if ((await passkeys.list(userId)).length > 0) throw new PeopleRefusal('passkey_first');
  const isLinked = provider && (await identities.isLinked(provider.issuer, userId));
  if (isLinked) throw new PeopleRefusal('provider_first');
}
