import { randomBytes, scrypt, timingSafeEqual, type ScryptOptions } from 'node:crypto';

import type { EpochSeconds } from '#model/clock';
import { replacePasswordHash } from '#db/authenticators';
import { clearAttempts } from '#db/failed-attempts';
import { revokeGrantsOfPerson } from '#db/person-grants';
import type { User } from '#db/people';
import { revokePersonalTokens } from '#db/personal-tokens';
import type { Db } from '#db/transaction';
import { accountSubject } from './guess-limit.ts';
import { type HashedFor, HashingQueue } from './hashing-queue.ts';
import { emailKey } from '#model/email';
import { type AccountPorts, recordChange, type Visit } from './sessions.ts';

const fewestCharacters = 12;
const mostCharacters = 256;

/**
 * Explains what is wrong with a new password; `undefined` if it is acceptable. Requires length and not certain kinds of
 * characters. NIST SP 800-63B-4 §3.1.1.2
 */
export function passwordProblem(password: string, repeated: string, email: string) {
  const { length } = Array.from(password.normalize('NFKC'));
  if (length < fewestCharacters) return `Use at least ${fewestCharacters} characters.`;
  if (length > mostCharacters) return `Use at most ${mostCharacters} characters.`;
  if (emailKey(password) === emailKey(email)) return 'Do not use your e-mail address.';
  if (new Set(password).size < 4) return 'Use more than three different characters.';
  if (password !== repeated) return 'The passwords do not match.';
  return undefined;
}

/** 64 MiB and two passes: as strong as OWASP's first choice for scrypt, at half its memory. */
const parameters = { log2Cost: 16, blockSize: 8, parallelization: 2 };
const saltBytes = 16;
const keyBytes = 32;

/**
 * Hashes passwords with scrypt, two at a time, so that many sign-ins queue up instead of exhausting memory. OWASP
 * Password Storage Cheat Sheet, PHC string format
 *
 * @throws {AccountRefusal} `busy` when too many are queued
 */
export function passwordHashing({ log2Cost = parameters.log2Cost } = {}) {
  const own = { ...parameters, log2Cost };
  const unknownPerson = encode(own, randomBytes(saltBytes), randomBytes(keyBytes));
  const queue = new HashingQueue();
  return {
    /** `$scrypt$ln=16,r=8,p=2$salt$key`, salt and key in base64 without padding. `whose` defaults to the operator. */
    hash: (password: string, whose: HashedFor = { known: 'operator' }) =>
      queue.run(whose, async () => {
        const salt = randomBytes(saltBytes);
        return encode(own, salt, await derive(password, salt, own));
      }),
    /** Whether the password matches. Without a hash (`undefined`) it takes as long and returns false. */
    verify: (password: string, encoded: string | undefined, whose: HashedFor) =>
      queue.run(whose, async () => {
        const { salt, key, ...cost } = decode(encoded ?? unknownPerson);
        const isEqual = timingSafeEqual(await derive(password, salt, cost), key);
        return isEqual && encoded !== undefined;
      }),
  };
}

export type PasswordHashing = ReturnType<typeof passwordHashing>;

type Cost = typeof parameters;

function derive(password: string, salt: Uint8Array, cost: Cost): Promise<Buffer> {
  const { log2Cost, blockSize: r, parallelization: p } = cost;
  const N = 2 ** log2Cost;
  const options: ScryptOptions = { N, r, p, maxmem: 256 * N * r };
  return new Promise((resolve, reject) => {
    // Keyboards encode the same character differently, so the text is normalized. NIST SP 800-63B-4 §3.1.1.2
    scrypt(password.normalize('NFKC'), salt, keyBytes, options, (error, key) =>
      error ? reject(error) : resolve(key),
    );
  });
}

function encode({ log2Cost, blockSize, parallelization }: Cost, salt: Buffer, key: Buffer): string {
  const cost = `ln=${log2Cost},r=${blockSize},p=${parallelization}`;
  return `$scrypt$${cost}$${base64(salt)}$${base64(key)}`;
}

function decode(encoded: string): Cost & { salt: Buffer; key: Buffer } {
  const match = /^\$scrypt\$ln=(\d+),r=(\d+),p=(\d+)\$([\w+/]+)\$([\w+/]{43})$/.exec(encoded);
  if (!match) throw new TypeError('a password hash is not in the format of this program');
  const [, log2Cost, blockSize, parallelization, salt = '', key = ''] = match;
  return {
    log2Cost: Number(log2Cost),
    blockSize: Number(blockSize),
    parallelization: Number(parallelization),
    salt: Buffer.from(salt, 'base64'),
    key: Buffer.from(key, 'base64'),
  };
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '');
}

/**
 * Replaces a person's password and revokes their sessions, grants and tokens, so that anyone who knew the old one is
 * signed out. The caller checks that the person may do this, validates and hashes the password, because those steps can
 * fail, and passes a transaction as `db`.
 */
export async function setPassword(
  user: User,
  hash: string,
  visit: Pick<Visit, 'address' | 'requestId'>,
  { db, clock }: AccountPorts,
): Promise<void> {
  const now = clock.now();
  await endGrants(user.id, { db, now });
  await replacePasswordHash(db, user.id, hash);
  // Again, because until `replacePasswordHash` an old session could still consent to a grant.
  await endGrants(user.id, { db, now });
  await clearAttempts(db, accountSubject(user.email));
  await recordChange(user, 'password.set', visit, { db, clock });
}

/** Revokes every grant and token that acts for a person. */
async function endGrants(
  userId: string,
  { db, now }: { db: Db; now: EpochSeconds },
): Promise<void> {
  await revokeGrantsOfPerson(db, userId, now);
  await revokePersonalTokens(db, userId, now);
}
