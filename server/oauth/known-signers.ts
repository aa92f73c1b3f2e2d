import { constants, KeyObject, type SigningOptions, verify } from 'node:crypto';

import { promisify } from 'node:util';

import type { CryptoKey } from 'jose';

import type { Awaitable } from '#model/awaitable';
import { LimitedMap } from '#model/limited-map';

/*
 * Verifies signatures of assertions whose header is known. `jose` decides what a header means: which key, which algorithm, and whether it is
 * allowed. Once it has verified an assertion, others with the same header and keys differ only in what is signed, and `node:crypto` verifies
 * them in half the time, without waiting.
 */

interface Signer {
  readonly key: KeyObject;
  readonly algorithm: Algorithm;
}

interface Algorithm {
  readonly hash: string | null;
  /** Whether to verify on another thread, because it takes a tenth of a millisecond. RSA takes a fifth of that. */
  readonly isSlow?: boolean;
  /** Absent where none are needed, because Node takes longer for a key with options. */
  readonly options?: SigningOptions;
  /** The length of a signature in bytes. */
  readonly length?: number;
}

const rsa = (bits: number): Algorithm => ({ hash: `sha${bits}` });
const pss = (bits: number): Algorithm => ({
  hash: `sha${bits}`,
  options: { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: bits / 8 },
});
const ecdsa = (bits: number, length: number): Algorithm => ({
  hash: `sha${bits}`,
  isSlow: true,
  options: { dsaEncoding: 'ieee-p1363' },
  length,
});
const eddsa: Algorithm = { hash: null, isSlow: true, length: 64 };

/** Asymmetric algorithms only: no one but the issuer must be able to sign. RFC 7518 §3.1, RFC 8037 §3.1 */
const algorithms: ReadonlyMap<string, Algorithm> = new Map([
  ['EdDSA', eddsa],
  ['Ed25519', eddsa],
  ['ES256', ecdsa(256, 64)],
  ['ES384', ecdsa(384, 96)],
  ['ES512', ecdsa(512, 132)],
  ['PS256', pss(256)],
  ['PS384', pss(384)],
  ['PS512', pss(512)],
  ['RS256', rsa(256)],
  ['RS384', rsa(384)],
  ['RS512', rsa(512)],
]);

/** The algorithms that assertions may be signed with. */
export const assertionAlgorithms = [...algorithms.keys()];

/** How many headers are remembered for each set of keys. */
const mostHeaders = 100;
const longestHeader = 1000;

const signers = new WeakMap<object, Map<string, Signer>>();

/** Remembers the header of an assertion that `jose` has verified, with the key that verified it, which is one of `keys`. */
export function rememberSigner(keys: object, text: string, alg: string, key: CryptoKey): void {
  const algorithm = algorithms.get(alg);
  const header = headerOf(text);
  if (!algorithm || header.length > longestHeader) return;
  const known = signers.get(keys) ?? new LimitedMap<string, Signer>(mostHeaders);
  known.set(header, { key: KeyObject.from(key), algorithm });
  signers.set(keys, known);
}

/** Whether the signature is valid. Also `false` if the signer is unknown; then `jose` decides. */
export function isSignedAsBefore(keys: object, text: string): Awaitable<boolean> {
  const signer = signers.get(keys)?.get(headerOf(text));
  if (!signer) return false;
  const { hash, isSlow, options, length } = signer.algorithm;
  const end = text.lastIndexOf('.');
  const written = text.slice(end + 1);
  const signature = Buffer.from(written, 'base64url');
  if (length !== undefined && signature.length !== length) return false;
  // Of several base64url spellings of the same bytes, only the canonical one is accepted.
  if (signature.toString('base64url') !== written) return false;
  const signed = Buffer.from(text.slice(0, end));
  const key = options ? { key: signer.key, ...options } : signer.key;
  return isSlow
    ? verifyMeanwhile(hash, signed, key, signature)
    : verify(hash, signed, key, signature);
}

const verifyLater = promisify(verify);
let running = 0;

/** How many signatures are being verified on other threads; their assertions are used right afterwards. */
export function runningVerifications(): number {
  return running;
}

async function verifyMeanwhile(...given: Parameters<typeof verifyLater>): Promise<boolean> {
  running += 1;
  try {
    return await verifyLater(...given);
  } finally {
    running -= 1;
  }
}

function headerOf(text: string): string {
  return text.slice(0, text.indexOf('.'));
}
