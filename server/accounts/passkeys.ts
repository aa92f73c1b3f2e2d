import { isIP } from 'node:net';

import { z } from 'zod';

import type { Clock } from '#model/clock';
import { insertPasskey, advancePasskey, findPasskey, listPasskeys } from '#db/authenticators';
import { databaseFault } from '#db/faults';
import type { User } from '#db/people';
import { type Db, transaction } from '#db/transaction';
import { issueChallenge, spendChallenge } from './challenges.ts';
import type { Sealing } from '#secrets/master-key';

/** Loaded when a person uses a passkey, because the library needs as much memory and start time as all our own modules. */
const webAuthn = () => import('@simplewebauthn/server');

/** EdDSA, ES256, RS256: every authenticator supports one of them, and so does Node. */
const supportedAlgorithmIDs = [-8, -7, -257];

export interface PasskeyPorts {
  readonly db: Db;
  readonly sealing: Pick<Sealing, 'mac'>;
  readonly clock: Clock;
}

/** The domain that passkeys are bound to; `undefined` for an IP address, which cannot have passkeys. */
export function passkeyDomain(base: string): string | undefined {
  const { hostname } = new URL(base);
  return isIP(hostname) !== 0 || hostname.startsWith('[') ? undefined : hostname;
}

/** Where passkeys are used: the public URL of the server, and what stores them. */
export interface PasskeySite extends PasskeyPorts {
  readonly base: string;
}

/** Options for the browser to create a passkey for `user`. WebAuthn L3 §5.4 */
export async function passkeyRegistrationOptions(
  user: User,
  cookieToken: string,
  site: PasskeySite,
): Promise<object> {
  const { generateRegistrationOptions } = await webAuthn();
  return generateRegistrationOptions({
    rpName: 'Latchkey',
    rpID: relyingPartyId(site),
    supportedAlgorithmIDs,
    userName: user.email,
    userDisplayName: user.email,
    userID: new Uint8Array(Buffer.from(user.id)),
    challenge: newChallenge(addPurpose(user), cookieToken, site),
    attestationType: 'none',
    excludeCredentials: (await listPasskeys(site.db, user.id)).map(({ id, transports }) => ({
      id,
      transports: [...transports],
    })),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  });
}

/**
 * Stores the passkey that the browser created, and what `record` writes, in one transaction. Resolves with `false` if
 * its response does not verify. WebAuthn L3 §7.1
 */
export async function registerPasskey(
  { user, name, answer }: { user: User; name: string; answer: unknown },
  cookieToken: string,
  site: PasskeySite,
  record: (tx: Db) => Promise<void> = async () => {},
): Promise<boolean> {
  const response = attestationSchema.safeParse(answer);
  if (!response.success) return false;
  const { verifyRegistrationResponse } = await webAuthn();
  const result = await verified(
    verifyRegistrationResponse({
      ...expected(addPurpose(user), cookieToken, site),
      response: response.data,
      supportedAlgorithmIDs,
    }),
  );
  if (!result?.verified) return false;
  const { id, publicKey, counter, transports = [] } = result.registrationInfo.credential;
  const made = {
    id,
    userId: user.id,
    name: name.trim().slice(0, 60) || 'Passkey',
    publicKey: Buffer.from(publicKey).toString('base64url'),
    counter,
    transports,
    createdAt: site.clock.now(),
    lastUsedAt: undefined,
  };
  return transaction(site.db, async (tx) => {
    if (!(await insertPasskey(tx, made))) return false;
    await record(tx);
    return true;
  });
}

/** Options for the browser to sign in with any passkey; the response says whose it is. WebAuthn L3 §5.5 */
export async function passkeySignInOptions(
  cookieToken: string,
  site: PasskeySite,
): Promise<object> {
  const { generateAuthenticationOptions } = await webAuthn();
  return generateAuthenticationOptions({
    rpID: relyingPartyId(site),
    userVerification: 'required',
    challenge: newChallenge(signInPurpose, cookieToken, site),
  });
}

/** Verifies a sign-in. `userId` is the owner of the passkey, or `undefined` for an unknown passkey. WebAuthn L3 §7.2 */
export async function verifyPasskeySignIn(
  answer: unknown,
  cookieToken: string,
  site: PasskeySite,
): Promise<{ userId: string | undefined; isProven: boolean }> {
  const { db, clock } = site;
  const response = assertionSchema.safeParse(answer);
  const passkey = response.success ? await findPasskey(db, response.data.id) : undefined;
  if (!response.success || !passkey) return { userId: undefined, isProven: false };
  const { id, userId, publicKey, counter } = passkey;
  const refused = { userId, isProven: false };
  const { userHandle } = response.data.response;
  if (userHandle !== undefined && textOf(userHandle) !== userId) return refused;
  const { verifyAuthenticationResponse } = await webAuthn();
  const key = new Uint8Array(Buffer.from(publicKey, 'base64url'));
  const result = await verified(
    verifyAuthenticationResponse({
      ...expected(signInPurpose, cookieToken, site),
      response: response.data,
      credential: { id, counter, publicKey: key },
    }),
  );
  if (!result?.verified) return refused;
  // If the counter changed concurrently, the authenticator was cloned or this is a replay. §6.1.1
  const to = result.authenticationInfo.newCounter;
  return { userId, isProven: await advancePasskey(db, id, { from: counter, to }, clock.now()) };
}

const signInPurpose = 'passkey-sign-in';

function addPurpose({ id }: User): string {
  return `passkey-add ${id}`;
}

function relyingPartyId({ base }: PasskeySite): string {
  return passkeyDomain(base) ?? 'passkeys.invalid';
}

function newChallenge(purpose: string, cookieToken: string, site: PasskeySite) {
  return new Uint8Array(Buffer.from(issueChallenge(purpose, cookieToken, site), 'base64url'));
}

/** The values that a response must match, and the factors that it must prove. */
function expected(purpose: string, cookieToken: string, site: PasskeySite) {
  return {
    expectedOrigin: site.base,
    expectedRPID: relyingPartyId(site),
    requireUserVerification: true,
    expectedChallenge: (challenge: string) =>
      spendChallenge({ challenge, purpose, cookieToken }, site),
  };
}

function textOf(base64url: string): string {
  return Buffer.from(base64url, 'base64url').toString();
}

/** Resolves with `undefined` if the response does not verify, for which the library throws. Database errors are rethrown. */
async function verified<T>(verification: Promise<T>): Promise<T | undefined> {
  try {
    return await verification;
  } catch (error) {
    if (databaseFault(error) !== undefined) throw error;
    return undefined;
  }
}

const base64url = z.string().regex(/^[\w-]+$/);
const envelope = {
  id: base64url.max(1400),
  rawId: base64url.max(1400),
  type: z.literal('public-key'),
  clientExtensionResults: z.object({}),
};
const transport = z.enum(['ble', 'cable', 'hybrid', 'internal', 'nfc', 'smart-card', 'usb']);

/** The browser's response after creating a passkey. WebAuthn L3 §5.1.8, RegistrationResponseJSON */
const attestationSchema = z.object({
  ...envelope,
  response: z.object({
    clientDataJSON: base64url,
    attestationObject: base64url,
    transports: z.array(transport).max(10),
  }),
});

/** The browser's response after using a passkey. WebAuthn L3 §5.1.8, AuthenticationResponseJSON */
const assertionSchema = z.object({
  ...envelope,
  response: z.object({
    clientDataJSON: base64url,
    authenticatorData: base64url,
    signature: base64url,
    userHandle: base64url.exactOptional(),
  }),
});
