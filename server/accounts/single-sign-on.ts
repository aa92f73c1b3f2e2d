import { deflateRawSync, inflateRawSync } from 'node:zlib';

import type { Clock } from '#model/clock';
import type { Db } from '#db/transaction';
import { AccountRefusal } from './account-refusal.ts';
import { issueChallenge, spendChallenge } from './challenges.ts';
import { providerFault } from './provider-faults.ts';
import type { IdentityProvider, SignInChecks, UpstreamIdentity } from './openid-provider.ts';
import type { Sealing } from '#secrets/master-key';

const purposes = ['sign-in', 'link', 'join', 'test', 'member', 'member-test'] as const;

/**
 * Why a person is sent to a provider: to sign in, to link their account there, to accept an invitation, to test what the
 * provider answers, to enter the organization of the provider, or to test whether they could enter it.
 */
export type UpstreamPurpose = (typeof purposes)[number];

/** The longest path in bytes, and its longest compressed form in a `state`, which becomes part of a URL at the provider. */
const longestNext = 16_384;
const longestTail = 2000;

export interface UpstreamSignInPorts {
  readonly provider: Pick<IdentityProvider, 'id' | 'begin' | 'finish'>;
  readonly db: Db;
  readonly sealing: Pick<Sealing, 'mac'>;
  readonly clock: Clock;
}

/**
 * The URL at the provider to send the browser to. The state is `{purpose}.{challenge}.{next}`; the challenge is valid for
 * one provider. Nonce and code verifier are derived from the state with a key of this server, so nothing is stored.
 *
 * @throws {AccountRefusal} `provider_unreachable`
 */
export async function beginUpstreamSignIn(
  { purpose, next, cookieToken }: { purpose: UpstreamPurpose; next: string; cookieToken: string },
  { provider, sealing, clock }: UpstreamSignInPorts,
): Promise<URL> {
  const tail = tailOf(next);
  const issuedFor = challengePurpose(purpose, tail, provider);
  const challenge = issueChallenge(issuedFor, cookieToken, { sealing, clock });
  const checks = checksOf(`${purpose}.${challenge}.${tail}`, sealing);
  try {
    return await provider.begin(checks);
  } catch (cause) {
    throw new AccountRefusal('provider_unreachable', faultWords(cause), { cause });
  }
}

/** The purpose in a `state`; `undefined` if this server did not create it. */
export function upstreamPurpose(state: string | undefined): UpstreamPurpose | undefined {
  const [purpose] = (state ?? '').split('.');
  return purposes.find((known) => known === purpose);
}

/** The `next` of a `state`; not verified, so any page may have written it. */
export function upstreamNext(state: string | undefined): string {
  const tail = Buffer.from((state ?? '').split('.')[2] ?? '', 'base64url');
  try {
    return inflateRawSync(tail, { maxOutputLength: longestNext }).toString();
  } catch {
    return '/';
  }
}

/** The path in a `state`. It is compressed, because a request for fifty servers repeats much; one that is still too long is left out. */
function tailOf(next: string): string {
  const write = (path: string) => deflateRawSync(path).toString('base64url');
  const tail = Buffer.byteLength(next) > longestNext ? '' : write(next);
  return tail === '' || tail.length > longestTail ? write('/') : tail;
}

/** The response that a browser brought back from the provider. */
interface UpstreamAnswer {
  readonly callback: URL;
  readonly cookieToken: string;
}

/**
 * The identity that the provider returned, and where the person wanted to go. The address may be unverified or missing:
 * issuer and subject identify a person who is linked.
 *
 * @throws {AccountRefusal} `state_unknown` unless this server sent this browser there and it returns for the first time,
 * `identity_invalid` with what the provider did as its `cause`
 */
export async function finishUpstreamSignIn(
  { callback, cookieToken }: UpstreamAnswer,
  { provider, db, sealing, clock }: UpstreamSignInPorts,
): Promise<{ identity: UpstreamIdentity; next: string }> {
  const state = callback.searchParams.get('state') ?? '';
  const [purpose = '', challenge = '', tail = ''] = state.split('.');
  const spent = { challenge, purpose: challengePurpose(purpose, tail, provider), cookieToken };
  if (!(await spendChallenge(spent, { db, sealing, clock }))) {
    throw new AccountRefusal('state_unknown', 'state of another browser, used or too old');
  }
  const identity = await identityOf(callback, checksOf(state, sealing), provider);
  return { identity, next: upstreamNext(state) };
}

/**
 * The address of an identity that a person links, or accepts an invitation with.
 *
 * @throws {AccountRefusal} `email_missing`, `email_unsaid`, `email_unverified`
 */
export function provenEmail({ email, emailProof }: UpstreamIdentity): string {
  if (email === undefined) {
    throw new AccountRefusal('email_missing', 'the claim email is missing');
  }
  switch (emailProof) {
    case 'verified':
    case 'trusted':
      return email;
    case 'unsaid':
      throw new AccountRefusal(
        'email_unsaid',
        'the claim email_verified is missing, and --oidc-trust-email does not apply',
      );
    case 'unverified':
      throw new AccountRefusal('email_unverified', 'the claim email_verified is not true');
  }
}

/**
 * A challenge of one provider is unknown at the callback of another, so that no provider can complete a sign-in that began
 * at another one. RFC 9700 §4.4
 */
function challengePurpose(purpose: string, tail: string, { id }: Pick<IdentityProvider, 'id'>) {
  return `provider ${purpose} ${tail}${id === undefined ? '' : ` ${id}`}`;
}

async function identityOf(
  callback: URL,
  checks: SignInChecks,
  provider: Pick<IdentityProvider, 'finish'>,
) {
  try {
    return await provider.finish(callback, checks);
  } catch (cause) {
    throw new AccountRefusal('identity_invalid', faultWords(cause), { cause });
  }
}

/** Describes the provider's fault for the log. */
function faultWords(cause: unknown): string {
  const { code, detail } = providerFault(cause);
  return `${code}: ${detail}`;
}

function checksOf(state: string, sealing: Pick<Sealing, 'mac'>): SignInChecks {
  const derive = (what: string) => sealing.mac(`provider ${what}`, state);
  return { state, nonce: derive('nonce'), codeVerifier: derive('code verifier') };
}
