import type { Clock } from '#clock/clock';
import type { Db } from '#db/transaction';
import { AccountRefusal } from './account-refusal.ts';
import { issueChallenge, spendChallenge } from './challenges.ts';
import type { IdentityProvider, SignInChecks, UpstreamIdentity } from './openid-provider.ts';
import type { Sealing } from '#oauth/master-key';

/** Why a person is sent to the provider: to sign in, to link their account there, or to accept an invitation. */
export type UpstreamPurpose = 'sign-in' | 'link' | 'join';

const longestNext = 1500;

export interface UpstreamSignInPorts {
  readonly provider: IdentityProvider;
  readonly db: Db;
  readonly sealing: Pick<Sealing, 'mac'>;
  readonly clock: Clock;
}

/**
 * The URL at the provider to send the browser to. The state is `{purpose}.{challenge}.{next}`. Nonce and code verifier are
 * derived from it with a key of this server, so nothing is stored.
 *
 * @throws {AccountRefusal} `provider_unreachable`
 */
export async function beginUpstreamSignIn(
  { purpose, next, cookieToken }: { purpose: UpstreamPurpose; next: string; cookieToken: string },
  { provider, sealing, clock }: UpstreamSignInPorts,
): Promise<URL> {
  const path = next.length > longestNext ? '/' : next;
  const tail = Buffer.from(path).toString('base64url');
  const issuedFor = `provider ${purpose} ${tail}`;
  const challenge = issueChallenge(issuedFor, cookieToken, { sealing, clock });
  const checks = checksOf(`${purpose}.${challenge}.${tail}`, sealing);
  try {
    return await provider.begin(checks);
  } catch (cause) {
    throw new AccountRefusal('provider_unreachable', 'the provider cannot be asked', { cause });
  }
}

/** The purpose in a `state`; `undefined` if this server did not create it. */
export function upstreamPurpose(state: string | undefined): UpstreamPurpose | undefined {
  const [purpose] = (state ?? '').split('.');
  return purpose === 'sign-in' || purpose === 'link' || purpose === 'join' ? purpose : undefined;
}

/**
 * The identity that the provider returned, and where the person wanted to go.
 *
 * @throws {AccountRefusal} `state_unknown` unless this server sent this browser there and it returns for the first time,
 * `identity_invalid` unless the provider asserts an identity with a verified address
 */
export async function finishUpstreamSignIn(
  { callback, cookieToken }: { callback: URL; cookieToken: string },
  { provider, db, sealing, clock }: UpstreamSignInPorts,
): Promise<{ identity: UpstreamIdentity; next: string }> {
  const state = callback.searchParams.get('state') ?? '';
  const [purpose = '', challenge = '', tail = ''] = state.split('.');
  const spent = { challenge, purpose: `provider ${purpose} ${tail}`, cookieToken };
  if (!(await spendChallenge(spent, { db, sealing, clock }))) {
    throw new AccountRefusal('state_unknown', 'state of another browser, used or too old');
  }
  const identity = await identityOf(callback, checksOf(state, sealing), provider);
  if (!identity.isEmailVerified) {
    throw new AccountRefusal('identity_invalid', 'the e-mail address is not verified there');
  }
  return { identity, next: Buffer.from(tail, 'base64url').toString() };
}

async function identityOf(callback: URL, checks: SignInChecks, provider: IdentityProvider) {
  try {
    return await provider.finish(callback, checks);
  } catch (cause) {
    throw new AccountRefusal('identity_invalid', String(cause), { cause });
  }
}

function checksOf(state: string, sealing: Pick<Sealing, 'mac'>): SignInChecks {
  const derive = (what: string) => sealing.mac(`provider ${what}`, state);
  return { state, nonce: derive('nonce'), codeVerifier: derive('code verifier') };
}
