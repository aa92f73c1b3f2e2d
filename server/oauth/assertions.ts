import { hash } from 'node:crypto';

import { decodeJwt, decodeProtectedHeader, errors, jwtVerify } from 'jose';
import { z } from 'zod';

import { markChallengesSpent, markChallengesSpentMeanwhile } from '#db/one-time';
import type { Db } from '#db/transaction';
import { type Awaitable, whenReady } from '#model/awaitable';
import type { Clock, EpochSeconds } from '#model/clock';
import { OutboundError } from '#outbound/checked-addresses';
import type { IssuerKeys, KeySource } from './issuer-keys.ts';
import {
  assertionAlgorithms,
  isSignedAsBefore,
  rememberSigner,
  runningVerifications,
} from './known-signers.ts';
import { OAuthError } from './oauth-error.ts';

const maxLength = 8192;
const compact = /^[\w-]+\.[\w-]+\.[\w-]+$/;
/** How much the clock of an issuer may differ from ours. */
const skewSeconds = 30;

const name = z.string().min(1).max(500);

/** The claims that every assertion must have. `aud` is one audience. RFC 7523 §3 */
const claimsSchema = z.looseObject({
  iss: name,
  sub: name,
  aud: z.union([name, z.tuple([name]).transform(([only]) => only)]),
  exp: z.number(),
  iat: z.number().optional(),
  jti: z.string().min(1).max(500).optional(),
});

export type AssertionClaims = z.output<typeof claimsSchema>;

/** An assertion as it was sent, not verified. */
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
 * Verifies the signature, the audience and the times of an assertion. After that, the claims that were read before can be trusted.
 *
 * RFC 7523 §3, RFC 8725 §3
 *
 * @throws {OAuthError} `invalid_grant`
 */
export function verifyAssertion(
  assertion: UnverifiedAssertion,
  terms: AssertionTerms,
  ports: VerifyingPorts,
): Awaitable<void> {
  const { source, issuer, audiences, longestLifeSeconds } = terms;
  const { text, claims } = assertion;
  const now = ports.clock.now();
  const { aud, exp, iat } = claims;
  if (!audiences.includes(aud)) throw assertionRefused('is for another audience');
  if (exp > now + longestLifeSeconds + skewSeconds) throw assertionRefused('lives too long');
  if (iat !== undefined && iat > now + skewSeconds) throw assertionRefused('is from the future');
  if (iat !== undefined && exp - iat > longestLifeSeconds) throw assertionRefused('lives too long');
  const keys = ports.issuerKeys.current(source);
  const known = keys && areValid(claims, issuer, now) && isSignedAsBefore(keys, text);
  return whenReady(known, (isRight) =>
    isRight ? undefined : verifyByJose(assertion, terms, ports),
  );
}

/** The checks of `jose` that `verifyAssertion` does not make. RFC 7519 §4.1 */
function areValid({ iss, exp, nbf }: AssertionClaims, issuer: string, now: EpochSeconds): boolean {
  const isBegun = nbf === undefined || (typeof nbf === 'number' && nbf <= now + skewSeconds);
  return iss === issuer && exp > now - skewSeconds && isBegun;
}

interface VerifyingPorts {
  readonly issuerKeys: IssuerKeys;
  readonly clock: Clock;
}

async function verifyByJose(
  { text, claims: { aud } }: UnverifiedAssertion,
  { source, issuer }: AssertionTerms,
  { issuerKeys, clock }: VerifyingPorts,
): Promise<void> {
  const keys = issuerKeys.current(source);
  try {
    const { key, protectedHeader } = await jwtVerify(text, issuerKeys.keyOf(source), {
      algorithms: assertionAlgorithms,
      issuer,
      audience: aud,
      requiredClaims: ['exp', 'sub'],
      clockTolerance: skewSeconds,
      currentDate: new Date(clock.now() * 1000),
    });
    // The key is one of `keys` only if they were not read again in the meantime.
    if (keys && keys === issuerKeys.current(source) && key instanceof CryptoKey)
      rememberSigner(keys, text, protectedHeader.alg, key);
  } catch (cause) {
    if (cause instanceof OutboundError) {
      throw assertionRefused('cannot be verified: the keys of its issuer cannot be read', cause);
    }
    if (cause instanceof errors.JWTExpired) throw assertionRefused('has expired', cause);
    throw assertionRefused('does not verify', cause);
  }
}

/** How long an assertion is remembered after it has expired, because time passes between verifying it and recording its use. */
const marginSeconds = 300;

/** An assertion to record as used. */
export interface SpentAssertion {
  readonly issuer: string;
  /** The organization where it is used. Another organization that trusts its own keys for this issuer must not use up the ids here. */
  readonly organizationId: string;
  /** `jti`, or something else that no other assertion of the issuer has. */
  readonly id: string;
  readonly exp: number;
  /** The keys that verified it, if it does not name its organization: it is then used up in every organization that trusts them. */
  readonly source?: KeySource;
}

/** Records that an assertion was used, until it can no longer be verified. @returns `false` if it was used before, at any node */
export async function spendAssertion(
  tx: Db,
  spent: SpentAssertion,
  now: EpochSeconds,
): Promise<boolean> {
  const marked = await markChallengesSpent(tx, recordsOf(spent), now);
  return marked.every((isFirst) => isFirst);
}

/** Always has a record without the keys: an assertion that was used stays used when its issuer gets other keys. */
function recordsOf({ issuer, organizationId, source, id, exp }: SpentAssertion) {
  const expiresAt = Math.ceil(exp) + skewSeconds + marginSeconds;
  const names = [[issuer, organizationId, id], ...(source ? [[issuer, source, id]] : [])];
  return names.map((one) => ({ hash: hash('sha256', JSON.stringify(one)), expiresAt }));
}

const mostAtOnce = 200;
/** How long a used assertion waits at most for others that are being verified: one commit for all costs less than one for each. */
const gatheringMs = 2;
/** How many commits may be on their way to the disk. */
const mostCommits = 2;

interface Waiting {
  readonly spent: SpentAssertion;
  readonly resolve: (isFirst: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Records used assertions that need no other change. One transaction records the assertions of many requests: all that are verified by
 * the time that no other signature is being verified.
 */
export class AssertionLedger {
  readonly #ports: { readonly db: Db; readonly clock: Clock };
  readonly #waiting: Waiting[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isDue = false;
  #running = 0;

  constructor(ports: { readonly db: Db; readonly clock: Clock }) {
    this.#ports = ports;
  }

  /** Resolves once the use is on disk. @returns `false` if the assertion was used before, at any node */
  spend(spent: SpentAssertion): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ spent, resolve, reject });
      this.#timer ??= setTimeout(() => this.#write(), gatheringMs);
      if (this.#isDue || (runningVerifications() > 0 && this.#waiting.length < mostAtOnce)) return;
      this.#isDue = true;
      setImmediate(() => {
        this.#isDue = false;
        this.#write();
      });
    });
  }

  #write(): void {
    if (this.#running >= mostCommits) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = this.#waiting.splice(0, mostAtOnce);
    if (batch.length === 0) return;
    this.#running += 1;
    void this.#record(batch).finally(() => {
      this.#running -= 1;
      this.#write();
    });
  }

  async #record(batch: readonly Waiting[]): Promise<void> {
    const { db, clock } = this.#ports;
    try {
      const records = batch.map(({ spent }) => recordsOf(spent));
      const first = await markChallengesSpentMeanwhile(db, records.flat(), clock.now());
      for (const [at, { resolve }] of batch.entries())
        resolve(first.splice(0, records[at]?.length).every((isFirst) => isFirst));
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}

/** Only the log has the cause. No text contains the assertion. */
export function assertionRefused(why: string, cause?: unknown): OAuthError {
  return new OAuthError('invalid_grant', `the assertion ${why}`, { cause });
}
