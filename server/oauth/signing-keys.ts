import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';

import { exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import { z } from 'zod';

import type { Clock, EpochSeconds } from '#model/clock';
import { accessTokenLifeSeconds } from '#model/lifetimes';
import {
  insertFirstSigningKey,
  listSigningKeys,
  replaceSigningKey,
  type StoredSigningKey,
} from '#db/signing-keys';
import type { Db } from '#db/transaction';
import type { MasterKey } from '#secrets/master-key';
import { randomBase62 } from '#secrets/secrets';

const jwkSchema = z.looseObject({ kid: z.string(), kty: z.literal('OKP') });

/** How long a retired key remains available: longer than any token that it signed. */
const overlapSeconds = 2 * accessTokenLifeSeconds;

/** How long a key is published before it signs, so that every node and every reader of a JWKS document knows it. */
const publishedSeconds = 5;

/** Ed25519 keys for signing and verification. The newest key that was published long enough signs. The set can change at any time. */
export interface SigningKeys {
  readonly current: { readonly kid: string; readonly privateKey: KeyObject };
  readonly publicKeys: ReadonlyMap<string, KeyObject>;
  /** The JWKS document: public members only. RFC 7517 §5 */
  readonly jwks: { readonly keys: readonly object[] };
}

/**
 * Reads the signing keys and creates the first one if there is none.
 *
 * @throws {Error} when they were encrypted with another master key
 */
export async function readSigningKeys(
  db: Db,
  { masterKey, clock }: { masterKey: MasterKey; clock: Clock },
): Promise<SigningKeys> {
  if ((await listSigningKeys(db)).length === 0)
    await insertFirstSigningKey(db, await newSigningKey(masterKey, clock));
  const stored = keysInUse(await listSigningKeys(db), clock.now());
  const signing = signingKeyOf(stored, clock.now());
  if (!signing) throw new Error('the signing key that was just stored cannot be read back');
  checkSealedUnder(masterKey, stored);
  const pkcs8 = masterKey.open(purpose(signing.kid), signing.encryptedPrivateKey);
  const documents = stored.map(({ publicJwk }) => jwkSchema.parse(JSON.parse(publicJwk)));
  const publicKeys = documents.map(
    (jwk) => [jwk.kid, createPublicKey({ key: jwk, format: 'jwk' })] as const,
  );
  return {
    current: { kid: signing.kid, privateKey: createPrivateKey(pkcs8) },
    publicKeys: new Map(publicKeys),
    jwks: { keys: documents },
  };
}

/** The keys that sign, or may have signed tokens that are still valid. */
function keysInUse(keys: readonly StoredSigningKey[], now: EpochSeconds) {
  return keys.filter(
    ({ retiredAt }) => retiredAt === undefined || retiredAt > now - overlapSeconds,
  );
}

/** The key that signs now. `keys` are in use, newest first. The first key of an installation signs immediately. */
function signingKeyOf(
  keys: readonly StoredSigningKey[],
  now: EpochSeconds,
): StoredSigningKey | undefined {
  const published = keys.filter(({ createdAt }) => createdAt + publishedSeconds <= now);
  const inForce = published.find(({ retiredAt }) => retiredAt === undefined);
  return inForce ?? published[0] ?? keys.at(-1);
}

/** Whether these keys were encrypted with `masterKey`. True if there are none. */
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

/** Refuses a master key that did not encrypt the signing keys: a process with it must neither serve nor add keys. */
function checkSealedUnder(masterKey: MasterKey, keys: readonly StoredSigningKey[]): void {
  if (areSealedUnder(masterKey, keys)) return;
  throw new Error(
    'the master key is not the one of this installation: the signing keys in the database were encrypted with another one. ' +
      'Name the file that the other nodes use, or restore it, in --master-key-file',
  );
}

async function newSigningKey(masterKey: MasterKey, clock: Clock): Promise<StoredSigningKey> {
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

const pollEveryMs = 2000;
const leastPauseMs = 500;

export interface KeyRingPorts {
  readonly masterKey: MasterKey;
  readonly clock: Clock;
  /** Called when the keys could not be read from the database. The known keys stay in use. */
  readonly failed: (error: unknown) => void;
}

/**
 * The signing keys as stored, including those that other processes add. Reads the store every two seconds, and
 * immediately before a token with an unknown key is refused.
 */
export class KeyRing implements SigningKeys {
  readonly #db: Db;
  readonly #ports: KeyRingPorts;
  readonly #timer: NodeJS.Timeout;
  #keys: SigningKeys;
  #kids = '';
  #reading: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #readAtMs = 0;

  private constructor(db: Db, ports: KeyRingPorts, keys: SigningKeys) {
    this.#db = db;
    this.#ports = ports;
    this.#keys = keys;
    this.#timer = setInterval(() => void this.#read(), pollEveryMs).unref();
  }

  static async open(db: Db, ports: KeyRingPorts): Promise<KeyRing> {
    return new KeyRing(db, ports, await readSigningKeys(db, ports));
  }

  get current(): SigningKeys['current'] {
    return this.#keys.current;
  }

  get publicKeys(): SigningKeys['publicKeys'] {
    return this.#keys.publicKeys;
  }

  get jwks(): SigningKeys['jwks'] {
    return this.#keys.jwks;
  }

  /**
   * Resolves after a read that began after this call. Reads are at least half a second apart, so that invalid tokens
   * cannot cause more.
   */
  refresh(): Promise<void> {
    this.#next ??= this.#readNext();
    return this.#next;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #readNext(): Promise<void> {
    await this.#reading;
    const pauseMs = this.#readAtMs + leastPauseMs - performance.now();
    if (pauseMs > 0) await setTimeout(pauseMs);
    // Later callers wait for a later read.
    this.#next = undefined;
    await this.#read();
  }

  #read(): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#readAtMs = performance.now();
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readOnce(): Promise<void> {
    try {
      // Decrypting a private key is slow, and usually nothing has changed.
      const now = this.#ports.clock.now();
      const known = keysInUse(await listSigningKeys(this.#db), now);
      const signing = signingKeyOf(known, now)?.kid;
      const kids = [
        signing,
        ...known.map(({ kid, retiredAt }) => `${kid} ${retiredAt ?? ''}`),
      ].join();
      if (kids === this.#kids) return;
      this.#keys = await readSigningKeys(this.#db, this.#ports);
      this.#kids = kids;
    } catch (error) {
      this.#ports.failed(error);
    }
  }
}

/**
 * Creates a key that signs as soon as every node has read it, some seconds from now, and returns its id. The previous key
 * still verifies the tokens that it signed until they have expired; the next rotation after that deletes it.
 *
 * @throws {Error} when the present keys were encrypted with another master key
 */
export async function rotateSigningKey(
  db: Db,
  { masterKey, clock }: { masterKey: MasterKey; clock: Clock },
): Promise<string> {
  checkSealedUnder(masterKey, await listSigningKeys(db));
  const key = await newSigningKey(masterKey, clock);
  await replaceSigningKey(db, key, clock.now() - overlapSeconds);
  return key.kid;
}
