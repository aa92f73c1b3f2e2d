import { isIP } from 'node:net';

import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from '@simplewebauthn/server';

import type { Clock } from '#clock/clock';
import { issueChallenge, spendChallenge } from './challenge.ts';
import type { ChallengeStore } from './challenge-store.ts';
import { assertionSchema, attestationSchema } from './passkey-answer.ts';
import type { PasskeyStore } from './passkey-store.ts';
import type { Sealing } from './sealing.ts';
import type { User } from './user.ts';

/** EdDSA, ES256, RS256: what every authenticator has one of, and Node verifies without experiments. */
const supportedAlgorithmIDs = [-8, -7, -257];

export interface PasskeyPorts {
  readonly passkeys: PasskeyStore;
  readonly challenges: ChallengeStore;
  readonly sealing: Pick<Sealing, 'mac'>;
  readonly clock: Clock;
}

/** The domain that passkeys are bound to; `undefined` under an IP address, where there can be none. */
export function passkeyDomain(base: string): string | undefined {
  const { hostname } = new URL(base);
  return isIP(hostname) !== 0 || hostname.startsWith('[') ? undefined : hostname;
}

export type Passkeys = ReturnType<typeof passkeys>;

/** Registering passkeys and signing in by them, under one public URL. WebAuthn L3 §7 */
export function passkeys(base: string, ports: PasskeyPorts) {
  const rpID = passkeyDomain(base) ?? 'passkeys.invalid';
  const place = { expectedOrigin: base, expectedRPID: rpID, requireUserVerification: true };
  const { passkeys: kept, clock } = ports;
  const challengeFor = (purpose: string, cookieToken: string) => ({
    challenge: Buffer.from(issueChallenge(purpose, cookieToken, ports), 'base64url'),
  });
  const isOurs = (purpose: string, cookieToken: string) => (challenge: string) =>
    spendChallenge({ challenge, purpose, cookieToken }, ports);

  return {
    /** What the browser needs to make a passkey for `user`. */
    async registrationOptions(user: User, cookieToken: string): Promise<object> {
      return generateRegistrationOptions({
        rpName: 'Latchkey',
        rpID,
        supportedAlgorithmIDs,
        userName: user.email,
        userDisplayName: user.email,
        userID: new Uint8Array(Buffer.from(user.id)),
        ...withBytes(challengeFor(`passkey-add ${user.id}`, cookieToken)),
        attestationType: 'none',
        excludeCredentials: (await kept.list(user.id)).map(({ id, transports }) => ({
          id,
          transports: [...transports],
        })),
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      });
    },

    /** Keeps the passkey that the browser made; `false` when its answer proves nothing. */
    async register(
      { user, name, answer }: { user: User; name: string; answer: unknown },
      cookieToken: string,
    ): Promise<boolean> {
      const response = attestationSchema.safeParse(answer);
      if (!response.success) return false;
      const expectedChallenge = isOurs(`passkey-add ${user.id}`, cookieToken);
      const result = await proven(
        verifyRegistrationResponse({
          ...place,
          response: response.data,
          expectedChallenge,
          supportedAlgorithmIDs,
        }),
      );
      if (!result?.verified) return false;
      const { id, publicKey, counter, transports = [] } = result.registrationInfo.credential;
      return kept.add({
        id,
        userId: user.id,
        name: name.trim().slice(0, 60) || 'Passkey',
        publicKey: Buffer.from(publicKey).toString('base64url'),
        counter,
        transports,
        createdAt: clock.now(),
        lastUsedAt: undefined,
      });
    },

    /** What any browser needs to use a passkey; whose, its answer tells. */
    async signInOptions(cookieToken: string): Promise<object> {
      return generateAuthenticationOptions({
        rpID,
        userVerification: 'required',
        ...withBytes(challengeFor('passkey-sign-in', cookieToken)),
      });
    },

    /** Whose passkey answers, and whether it provably does; nobody's has no `userId`. */
    async signIn(
      answer: unknown,
      cookieToken: string,
    ): Promise<{ userId: string | undefined; isProven: boolean }> {
      const response = assertionSchema.safeParse(answer);
      const passkey = response.success ? await kept.byId(response.data.id) : undefined;
      if (!response.success || !passkey) return { userId: undefined, isProven: false };
      const { id, userId, publicKey, counter } = passkey;
      const refused = { userId, isProven: false };
      const { userHandle } = response.data.response;
      if (userHandle !== undefined && textOf(userHandle) !== userId) return refused;
      const key = new Uint8Array(Buffer.from(publicKey, 'base64url'));
      const result = await proven(
        verifyAuthenticationResponse({
          ...place,
          response: response.data,
          expectedChallenge: isOurs('passkey-sign-in', cookieToken),
          credential: { id, counter, publicKey: key },
        }),
      );
      if (!result?.verified) return refused;
      // A counter that somebody else has moved meanwhile is a cloned authenticator or a replay. §6.1.1
      const to = result.authenticationInfo.newCounter;
      return { userId, isProven: await kept.used(id, { from: counter, to }, clock.now()) };
    },
  };
}

function withBytes({ challenge }: { challenge: Buffer }) {
  return { challenge: new Uint8Array(challenge) };
}

function textOf(base64url: string): string {
  return Buffer.from(base64url, 'base64url').toString();
}

/** The library throws for an answer that proves nothing; a fault of our stores is not one of those. */
async function proven<T>(verification: Promise<T>): Promise<T | undefined> {
  try {
    return await verification;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_SQLITE_ERROR') throw error;
    return undefined;
  }
}
