import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';

import { decodeJwt, decodeProtectedHeader, errors, jwtVerify } from 'jose';
import { z } from 'zod';

import { markChallengesSpent } from '#db/one-time';
import type { Db } from '#db/transaction';
import type { Clock, EpochSeconds } from '#model/clock';
import { OutboundError } from '#outbound/checked-addresses';
import type { IssuerKeys, KeySource } from './issuer-keys.ts';
import { OAuthError } from './oauth-error.ts';

/** Asymmetric algorithms only: no one but the issuer must be able to sign. */
const algorithms = [
  'EdDSA',
  'Ed25519',
  'ES256',
  'ES384',
  'ES512',
  'PS256',
  'PS384',
  'PS512',
  'RS256',
  'RS384',
  'RS512',
];

const maxLength = 8192;
const compact = /^[\w-]+\.[\w-]+\.[\w-]+$/;
/** How much the clock of an issuer may differ from ours. */
const skewSeconds = 30;

const name = z.string().min(1).max(500);

/** What every assertion must claim. `aud` is one audience. RFC 7523 §3 */
const claimsSchema = z.looseObject({
  iss: name,
  sub: name,
  aud: z.union([name, z.tuple([name]).transform(([only]) => only)]),
  exp: z.number(),
  iat: z.number().optional(),
  jti: z.string().min(1).max(500).optional(),
});

export type AssertionClaims = z.output<typeof claimsSchema>;

/** An assertion as it was sent, of which nothing is verified. */
export interface UnverifiedAssertion {
  readonly text: string;
  /** In lower case, without `application/`. RFC 7515 §4.1.9 */
  readonly typ: string | undefined;
  readonly claims: AssertionClaims;
}

/**
 * Reads an assertion without verifying it.
 *
 * @throws {OAuthError} `invalid_grant`
 */
export function readAssertion(text: string): UnverifiedAssertion {
  if (text.length > maxLength) throw assertionRefused('is too long');
  if (!compact.test(text)) throw assertionRefused('is not a signed JWT');
  try {
    const { typ } = decodeProtectedHeader(text);
    const claims = claimsSchema.safeParse(decodeJwt(text));
    if (!claims.success)
      throw assertionRefused(`has no valid ${String(claims.error.issues[0]?.path[0])}`);
    return { text, typ: typ?.toLowerCase().replace(/^application\//, ''), claims: claims.data };
  } catch (error) {
    if (error instanceof OAuthError) throw error;
    throw assertionRefused('is not a signed JWT', error);
  }
}

export interface AssertionTerms {
  readonly source: KeySource;
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly longestLifeSeconds: number;
}

/**
 * Verifies the signature, the audience and the times of an assertion. Its claims are then those that were read before.
 *
 * RFC 7523 §3, RFC 8725 §3
 *
 * @throws {OAuthError} `invalid_grant`
 */
export async function verifyAssertion(
  { text, claims }: UnverifiedAssertion,
  { source, issuer, audiences, longestLifeSeconds }: AssertionTerms,
  { issuerKeys, clock }: { readonly issuerKeys: IssuerKeys; readonly clock: Clock },
): Promise<void> {
  const now = clock.now();
  const { aud, exp, iat } = claims;
  if (!audiences.includes(aud)) throw assertionRefused('is for another audience');
  if (exp > now + longestLifeSeconds + skewSeconds) throw assertionRefused('lives too long');
  if (iat !== undefined && iat > now + skewSeconds) throw assertionRefused('is from the future');
  if (iat !== undefined && exp - iat > longestLifeSeconds) throw assertionRefused('lives too long');
  try {
    await jwtVerify(text, issuerKeys.keyOf(source), {
      algorithms,
      issuer,
      audience: aud,
      requiredClaims: ['exp', 'sub'],
      clockTolerance: skewSeconds,
      currentDate: new Date(now * 1000),
    });
  } catch (cause) {
    if (cause instanceof OutboundError) {
      throw assertionRefused('cannot be verified: the keys of its issuer cannot be read', cause);
    }
    if (cause instanceof errors.JWTExpired) throw assertionRefused('has expired', cause);
    throw assertionRefused('does not verify', cause);
  }
}

/** How much later than its last moment an assertion is forgotten: time passes between verifying it and recording its use. */
const marginSeconds = 300;

/** An assertion that is used. */
export interface SpentAssertion {
  readonly source: KeySource;
  readonly issuer: string;
  /** `jti`, or what else no other assertion of the issuer has. */
  readonly id: string;
  readonly exp: number;
}

/** Records that an assertion is used, for as long as it would verify and longer. @returns `false` if it was used before, at any node */
export async function spendAssertion(
  tx: Db,
  spent: SpentAssertion,
  now: EpochSeconds,
): Promise<boolean> {
  const [isFirst = false] = await markChallengesSpent(tx, [recordOf(spent)], now);
  return isFirst;
}

function recordOf({ issuer, source, id, exp }: SpentAssertion) {
  // The source belongs to it: an organization that names keys of its own for this issuer must not use up the ids of others.
  const hash = createHash('sha256')
    .update(JSON.stringify([issuer, source, id]))
    .digest('hex');
  return { hash, expiresAt: Math.ceil(exp) + skewSeconds + marginSeconds };
}

const mostAtOnce = 200;
const gatheringMs = 2;

/**
 * Records used assertions that need no other change, those of many requests in one transaction: each commit waits for the disk, and
 * the assertions that arrive meanwhile are recorded by the next one.
 */
export class AssertionLedger {
  readonly #ports: { readonly db: Db; readonly clock: Clock };
  readonly #waiting: {
    readonly spent: SpentAssertion;
    readonly resolve: (isFirst: boolean) => void;
    readonly reject: (error: unknown) => void;
  }[] = [];
  #isWriting = false;
  /** How many were recorded by the last transaction. */
  #before = 0;

  constructor(ports: { readonly db: Db; readonly clock: Clock }) {
    this.#ports = ports;
  }

  /** Resolves once the use is on disk. @returns `false` if the assertion was used before, at any node */
  spend(spent: SpentAssertion): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ spent, resolve, reject });
      if (this.#isWriting) return;
      this.#isWriting = true;
      setImmediate(() => void this.#write());
    });
  }

  async #write(): Promise<void> {
    const { db, clock } = this.#ports;
    while (this.#waiting.length > 0) {
      // Where several came at a time, more are about to.
      if (this.#before > 1) await pause(gatheringMs);
      const batch = this.#waiting.splice(0, mostAtOnce);
      this.#before = batch.length;
      try {
        const records = batch.map(({ spent }) => recordOf(spent));
        const first = await markChallengesSpent(db, records, clock.now());
        for (const [at, { resolve }] of batch.entries()) resolve(first[at] ?? false);
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
      // Requests whose assertions were verified during the commit join the next one.
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    this.#isWriting = false;
  }
}

/** Only the log has the cause. No text contains the assertion. */
export function assertionRefused(why: string, cause?: unknown): OAuthError {
  return new OAuthError('invalid_grant', `the assertion ${why}`, { cause });
}
