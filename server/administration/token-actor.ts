import type { Clock } from '#clock/clock';
import type { PersonalTokenStore } from '#credentials/personal-token';
import { hashSecret, isWellFormedSecret } from '#credentials/secret-format';
import type { Actor } from './actor.ts';

/**
 * The person whose personal token this is; `undefined` when it is wrong, expired, revoked, or gone with its
 * person: nobody learns which. What the person may do where is looked up at each operation.
 */
export async function tokenActor(
  personalToken: string,
  from: { readonly address: string; readonly requestId: string },
  { personalTokens, clock }: { personalTokens: Pick<PersonalTokenStore, 'use'>; clock: Clock },
): Promise<Actor | undefined> {
  if (!isWellFormedSecret('pat_', personalToken)) return undefined;
  const token = await personalTokens.use(hashSecret(personalToken), clock.now());
  if (!token) return undefined;
  const { userId, factors } = token;
  return { type: 'person', userId, provedAt: undefined, factors, ...from };
}
