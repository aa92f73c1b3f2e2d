import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

import type { Clock, EpochSeconds } from '#model/clock';
import { hashSecret, randomBase62 } from '#secrets/secrets';
import { insertAuditEvent } from '#db/audit';
import type { User } from '#db/people';
import { insertCheck } from '#db/provider-checks';
import { isSignInOpen, type ProviderSignIn } from '#db/provider-sessions';
import { insertSession, type Session } from '#db/sessions';
import { transaction, type Db } from '#db/transaction';
import { recentProofSeconds, sessionLifeSeconds } from '#model/lifetimes';
import { AccountRefusal } from './account-refusal.ts';

/** Where a request came from, as stored with sessions and in the audit log. */
export interface Visit {
  readonly address: string;
  readonly userAgent: string;
  readonly requestId: string;
}

/** The database with the accounts, and the clock. */
export interface AccountPorts {
  readonly db: Db;
  readonly clock: Clock;
}

/** Adds an entry to the audit log: a person changed how they sign in. */
export function recordChange(
  { id }: Pick<User, 'id'>,
  action: string,
  { address, requestId }: Pick<Visit, 'address' | 'requestId'>,
  { db, clock }: AccountPorts,
): Promise<void> {
  const actor = `user:${id}`;
  const where = { organization: undefined, target: actor, address, requestId };
  return insertAuditEvent(db, { at: clock.now(), actor, action, ...where, outcome: 'done' });
}

const mostUserAgent = 300;

/** 192 random bits, for a cookie or a link. */
export function randomToken(): string {
  return randomBytes(24).toString('base64url');
}

/** The owner of a new session, and the sign-in at a provider that the session comes from. */
export interface NewSession extends Pick<Session, 'userId' | 'factors' | 'through'> {
  readonly from?: CheckedSignIn | undefined;
}

/** A sign-in at a provider, and how the person is checked again there. */
export interface CheckedSignIn extends ProviderSignIn {
  /** A refresh token, encrypted for `checkPurpose`; absent if the provider issued none. */
  readonly sealedToken?: string | undefined;
  readonly checkAfterSeconds: number;
}

/** The purpose for sealing the refresh token with which a person is checked again at the provider. */
export function checkPurpose(provider: string, subject: string): string {
  return `identity provider ${provider} refresh token of ${subject}`;
}

/**
 * Starts a session. The browser's cookie gets `sessionToken`; the database stores only its hash.
 *
 * @throws {AccountRefusal} `sign_in_expired` if the sign-in at a provider ended before its session began
 */
export async function startSession(
  { userId, factors, through, from }: NewSession,
  { address, userAgent }: Visit,
  { db, clock }: AccountPorts,
): Promise<{ session: Session; sessionToken: string }> {
  const now = clock.now();
  const sessionToken = randomToken();
  const session: Session = {
    id: `session_${randomBase62(16)}`,
    userId,
    createdAt: now,
    usedAt: now,
    expiresAt: now + sessionLifeSeconds,
    address,
    userAgent: userAgent.slice(0, mostUserAgent),
    factors,
    through,
    ...(from?.place.type === 'installation' && {
      installation: { issuer: from.place.issuer, providerSession: from.providerSession },
    }),
  };
  await transaction(db, async (tx) => {
    if (from && !(await isSignInOpen(tx, userId, from))) {
      throw new AccountRefusal('sign_in_expired', 'ended by the provider or an administrator');
    }
    await insertSession(tx, { ...session, tokenHash: hashSecret(sessionToken) });
    if (from?.sealedToken === undefined) return;
    const { place, subject, sealedToken, checkAfterSeconds } = from;
    const times = { now, nextAt: now + checkAfterSeconds };
    await insertCheck(tx, { place, subject, sealedToken }, times);
  });
  return { session, sessionToken };
}

/**
 * Whether this browser signed in within the last ten minutes, which adding another way to sign in requires. Otherwise
 * anyone who finds an unlocked browser or steals a cookie could take over the account permanently. OWASP Session
 * Management Cheat Sheet, "Require Re-authentication for Sensitive Actions"
 */
export function isRecentProof({ createdAt }: Pick<Session, 'createdAt'>, now: EpochSeconds) {
  return now - createdAt < recentProofSeconds;
}

/**
 * The CSRF token of forms, base64url. It is derived from the browser's cookie, which no other site can read, so nothing
 * is stored. OWASP CSRF Prevention Cheat Sheet, "HMAC Based Token Pattern"
 */
export function csrfToken(cookieToken: string): string {
  return createHmac('sha256', cookieToken).update('latchkey csrf').digest('base64url');
}

export function isCsrfToken(presented: string | undefined, cookieToken: string): boolean {
  const expected = Buffer.from(csrfToken(cookieToken));
  const given = Buffer.from(presented ?? '');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

const browsers = [
  ['Edge', /\bEdg(?:e|A|iOS)?\//],
  ['Opera', /\bOPR\//],
  ['Samsung Internet', /\bSamsungBrowser\//],
  ['Firefox', /\b(?:Firefox|FxiOS)\//],
  ['Chrome', /\b(?:Chrome|CriOS|Chromium|HeadlessChrome)\//],
  ['Safari', /\bSafari\//],
] as const;

const systems = [
  ['Android', /\bAndroid\b/],
  ['iOS', /\b(?:iPhone|iPad|iPod)\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMacintosh\b/],
  ['Linux', /\b(?:Linux|X11)\b/],
] as const;

/** A readable form of a `User-Agent`, such as `Firefox on Windows`. It is a guess that helps people recognize a session. */
export function browserInWords(userAgent: string): string {
  const browser = browsers.find(([, pattern]) => pattern.test(userAgent))?.[0];
  const system = systems.find(([, pattern]) => pattern.test(userAgent))?.[0];
  if (browser === undefined)
    return system === undefined ? 'An unknown browser' : `A browser on ${system}`;
  return system === undefined ? browser : `${browser} on ${system}`;
}
