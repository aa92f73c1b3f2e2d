import type { EpochSeconds } from '#clock/clock';
import type { Session } from './session-store.ts';

const recentSeconds = 10 * 60;

/**
 * Whether this browser proved who it is within the last ten minutes. Without that nobody adds another way
 * to sign in: whoever finds an open browser, or takes a cookie, would have the account for good.
 * OWASP Session Management Cheat Sheet, "Require Re-authentication for Sensitive Actions"
 */
export function isRecentProof({ createdAt }: Pick<Session, 'createdAt'>, now: EpochSeconds) {
  return now - createdAt < recentSeconds;
}
