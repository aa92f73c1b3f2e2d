import { randomBytes, scrypt, timingSafeEqual, type ScryptOptions } from 'node:crypto';

import { PeopleRefusal } from './people-refusal.ts';

/** 64 MiB and two passes: as strong as OWASP's first choice for scrypt, at half its memory. */
const parameters = { log2Cost: 16, blockSize: 8, parallelization: 2 };
const saltBytes = 16;
const keyBytes = 32;
const mostAtOnce = 2;
const mostWaiting = 100;

export interface PasswordHashing {
  /** `$scrypt$ln=16,r=8,p=2$salt$key`, salt and key in base64 without padding. */
  hash(password: string): Promise<string>;

  /** Whether the password is the hashed one. Of nobody's (`undefined`) it takes as long to say no. */
  verify(password: string, encoded: string | undefined): Promise<boolean>;
}

/**
 * Hashes passwords by scrypt, two at a time, so that many sign-ins wait instead of filling the memory.
 * OWASP Password Storage Cheat Sheet, PHC string format
 *
 * @throws {PeopleRefusal} `busy` when a hundred wait already
 */
export function passwordHashing({ log2Cost = parameters.log2Cost } = {}): PasswordHashing {
  const own = { ...parameters, log2Cost };
  const nobody = encode(own, randomBytes(saltBytes), randomBytes(keyBytes));
  const inTurn = turns();
  return {
    hash: (password) =>
      inTurn(async () => {
        const salt = randomBytes(saltBytes);
        return encode(own, salt, await derive(password, salt, own));
      }),
    verify: (password, encoded) =>
      inTurn(async () => {
        const { salt, key, ...cost } = decode(encoded ?? nobody);
        const isEqual = timingSafeEqual(await derive(password, salt, cost), key);
        return isEqual && encoded !== undefined;
      }),
  };
}

type Cost = typeof parameters;

function derive(password: string, salt: Uint8Array, cost: Cost): Promise<Buffer> {
  const { log2Cost, blockSize: r, parallelization: p } = cost;
  const N = 2 ** log2Cost;
  const options: ScryptOptions = { N, r, p, maxmem: 256 * N * r };
  return new Promise((resolve, reject) => {
    // One spelling of what looks the same on every keyboard. NIST SP 800-63B-4 §3.1.1.2
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

/** Lets work in, `mostAtOnce` at a time, in the order of asking. */
function turns(): <T>(work: () => Promise<T>) => Promise<T> {
  let working = 0;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (waiting.length >= mostWaiting) throw new PeopleRefusal('busy');
    if (working >= mostAtOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else working += 1;
    try {
      return await work();
    } finally {
      // The place goes to the next one directly, so nobody can slip in between.
      const next = waiting.shift();
      if (next) next();
      else working -= 1;
    }
  };
}
