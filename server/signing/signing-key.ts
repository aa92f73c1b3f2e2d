import {
  exportJWK,
  exportPKCS8,
  generateKeyPair,
  importJWK,
  importPKCS8,
  type CryptoKey,
} from 'jose';
import { z } from 'zod';

import type { Clock, EpochSeconds } from '#clock/clock';
import { randomBase62 } from '#credentials/secret-format';
import type { MasterKey } from './master-key.ts';

const jwkSchema = z.looseObject({ kid: z.string(), kty: z.literal('OKP') });

/** A signing key as it is kept: the public half readable, the private half sealed. */
export interface StoredSigningKey {
  readonly kid: string;
  /** The public JWK's own JSON text. */
  readonly publicJwk: string;
  readonly encryptedPrivateKey: string;
  readonly createdAt: EpochSeconds;
  /** When another took its place; it still verifies what it signed. */
  readonly retiredAt?: EpochSeconds | undefined;
}

/** Where signing keys are kept. */
export interface SigningKeyStore {
  /** All that tokens in use may have been signed with, newest first. */
  list(): Promise<StoredSigningKey[]>;

  add(key: StoredSigningKey): Promise<void>;
}

/** Where one signing key takes the place of those before it. */
export interface SigningKeyRotation {
  /** Adds the key and retires the others, and removes those retired before `forgetBefore`. */
  rotate(key: StoredSigningKey, forgetBefore: EpochSeconds): Promise<void>;
}

/** How long a retired key stays known: longer than any token that it signed. */
export const overlapSeconds = 2 * 3600;

/** Ed25519 keys, ready to sign and to verify. The newest signs. What it says may change at any time. */
export interface SigningKeys {
  readonly current: { readonly kid: string; readonly privateKey: CryptoKey };
  readonly publicKeys: ReadonlyMap<string, CryptoKey | Uint8Array>;
  /** The JWKS document: public members only. RFC 7517 §5 */
  readonly jwks: { readonly keys: readonly object[] };
}

/** Reads the signing keys, making the first one where there is none. */
export async function readSigningKeys(
  store: SigningKeyStore,
  { masterKey, clock }: { masterKey: MasterKey; clock: Clock },
): Promise<SigningKeys> {
  if ((await store.list()).length === 0) await store.add(await newSigningKey(masterKey, clock));
  const stored = keysInUse(await store.list(), clock.now());
  const newest = stored.find(({ retiredAt }) => retiredAt === undefined) ?? stored[0];
  if (!newest) throw new Error('the signing key that was just stored cannot be read back');
  const pkcs8 = masterKey.open(purpose(newest.kid), newest.encryptedPrivateKey);
  const documents = stored.map(({ publicJwk }) => jwkSchema.parse(JSON.parse(publicJwk)));
  const publicKeys = await Promise.all(
    documents.map(async (jwk) => [jwk.kid, await importJWK(jwk, 'EdDSA')] as const),
  );
  return {
    current: { kid: newest.kid, privateKey: await importPKCS8(pkcs8, 'EdDSA') },
    publicKeys: new Map(publicKeys),
    jwks: { keys: documents },
  };
}

/** The keys that sign, or that tokens in use may have been signed with. */
export function keysInUse(keys: readonly StoredSigningKey[], now: EpochSeconds) {
  return keys.filter(
    ({ retiredAt }) => retiredAt === undefined || retiredAt > now - overlapSeconds,
  );
}

/** Whether `masterKey` is the one that these are sealed under; so it is where there is none. */
export function areSealedUnder(
  masterKey: MasterKey,
  keys: readonly Pick<StoredSigningKey, 'kid' | 'encryptedPrivateKey'>[],
): boolean {
  try {
    for (const key of keys) masterKey.open(purpose(key.kid), key.encryptedPrivateKey);
    return true;
  } catch {
    return false;
  }
}

export async function newSigningKey(masterKey: MasterKey, clock: Clock): Promise<StoredSigningKey> {
  const { publicKey, privateKey } = await generateKeyPair('EdDSA', { extractable: true });
  const kid = randomBase62(16);
  const publicJwk = { ...(await exportJWK(publicKey)), kid, alg: 'EdDSA', use: 'sig' };
  return {
    kid,
    publicJwk: JSON.stringify(publicJwk),
    encryptedPrivateKey: masterKey.seal(purpose(kid), await exportPKCS8(privateKey)),
    createdAt: clock.now(),
  };
}

const purpose = (kid: string) => `signing-key ${kid}`;
