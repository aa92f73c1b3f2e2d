import { randomBytes } from 'node:crypto';

import type { Clock } from '#clock/clock';
import { hashSecret, randomBase62 } from '#credentials/secret-format';
import { sessionLifeSeconds, type Session, type SessionStore } from './session-store.ts';
import type { Visit } from './visit.ts';

const mostUserAgent = 300;

/** 192 random bits, for a cookie or a link. */
export function randomToken(): string {
  return randomBytes(24).toString('base64url');
}

/** Signs a browser in. The token goes into its cookie and nowhere else. */
export async function startSession(
  { userId, factors }: Pick<Session, 'userId' | 'factors'>,
  { address, userAgent }: Visit,
  { sessions, clock }: { sessions: Pick<SessionStore, 'add'>; clock: Clock },
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
  };
  await sessions.add({ ...session, tokenHash: hashSecret(sessionToken) });
  return { session, sessionToken };
}
