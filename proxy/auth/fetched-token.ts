import type { EpochSeconds } from '#clock/clock';
import type { Discovery } from './discover.ts';
import type { GrantedToken } from './token-request.ts';

/** A token and what has to be remembered of where it came from. */
export type FetchedToken = {
  accessToken: string;
  obtainedAt: EpochSeconds;
  expiresAt?: EpochSeconds;
  issuer: string;
  published: boolean;
  scope?: string;
};

export function tokenOf(
  { accessToken, expiresInSeconds, scope }: GrantedToken,
  { issuer, published }: Discovery,
  obtainedAt: EpochSeconds,
): FetchedToken {
  return {
    accessToken,
    obtainedAt,
    ...(expiresInSeconds !== undefined && { expiresAt: obtainedAt + expiresInSeconds }),
    issuer,
    published,
    ...(scope !== undefined && { scope }),
  };
}
