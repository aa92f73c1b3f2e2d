import type { EpochSeconds } from '#clock/clock';

/** An access token as it stands in the secret store. */
export type TokenRecord = {
  accessToken: string;
  obtainedAt: EpochSeconds;
  /** `undefined` when the server does not say. */
  expiresAt?: EpochSeconds;
  issuer: string;
  /** Whether the resource published metadata when the token was fetched. */
  published: boolean;
  /** What it is good for, where the server said. */
  scope?: string;
  /** The account that a person signed in with, as the authorization server names it. */
  signedInAs?: string;
};

/** The record in `text`; `undefined` when an older or foreign program wrote something else. */
export function parseTokenRecord(text: string | undefined): TokenRecord | undefined {
  try {
    const value: Record<string, unknown> | null = JSON.parse(text ?? 'null');
    const { accessToken, obtainedAt, expiresAt, issuer, published, scope, signedInAs } =
      value ?? {};
    if (typeof accessToken !== 'string' || typeof obtainedAt !== 'number') return undefined;
    if (typeof issuer !== 'string' || typeof published !== 'boolean') return undefined;
    const record = {
      accessToken,
      obtainedAt,
      issuer,
      published,
      ...(typeof scope === 'string' && { scope }),
      ...(typeof signedInAs === 'string' && { signedInAs }),
    };
    return typeof expiresAt === 'number' ? { ...record, expiresAt } : record;
  } catch {
    return undefined;
  }
}

const longestMarginSeconds = 300;

/** Whether it is time for a successor: in the last tenth of its life, at most five minutes ahead. */
export function isDue({ obtainedAt, expiresAt }: TokenRecord, now: EpochSeconds): boolean {
  if (expiresAt === undefined) return false;
  const margin = Math.min(longestMarginSeconds, (expiresAt - obtainedAt) / 10);
  return now >= expiresAt - margin || now < obtainedAt - longestMarginSeconds;
}

export function isExpired({ expiresAt }: TokenRecord, now: EpochSeconds): boolean {
  return expiresAt !== undefined && now >= expiresAt;
}
