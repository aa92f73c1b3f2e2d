import { z } from 'zod';

import type { EpochSeconds } from '#clock/clock';

/** What an authorization server gave us. */
export interface UpstreamTokens {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  /** From when on the access token is renewed, ahead of its end. */
  readonly renewAt?: EpochSeconds | undefined;
  /** When the access token ends; `undefined` when nobody said. */
  readonly expiresAt?: EpochSeconds | undefined;
}

const tokensSchema = z.strictObject({
  accessToken: z.string(),
  refreshToken: z.string().optional(),
  renewAt: z.number().optional(),
  expiresAt: z.number().optional(),
});

/** Tokens as the text that is sealed. */
export function tokensText({
  accessToken,
  refreshToken,
  renewAt,
  expiresAt,
}: UpstreamTokens): string {
  return JSON.stringify({ accessToken, refreshToken, renewAt, expiresAt });
}

export function readTokens(text: string): UpstreamTokens {
  return tokensSchema.parse(JSON.parse(text));
}

/** How long before its end an access token is renewed at most, so that no call meets it ended. */
const marginSeconds = 60;
/** A token that ends within this is as good as ended: the call is still on its way. */
const leastSeconds = 2;

/** When a token that lives for `life` seconds is renewed and ends: one that lives shortly is not renewed at each call. */
export function timesOf(
  life: number | undefined,
  now: EpochSeconds,
): Pick<UpstreamTokens, 'renewAt' | 'expiresAt'> {
  if (life === undefined) return {};
  const margin = Math.min(marginSeconds, Math.ceil(life / 4));
  return { renewAt: now + life - margin, expiresAt: now + life };
}

/** Whether an access token need not be renewed yet. */
export function isFresh({ renewAt }: UpstreamTokens, now: EpochSeconds): boolean {
  return renewAt === undefined || renewAt > now;
}

/** Whether an access token can still be sent. */
export function isUsable({ expiresAt }: UpstreamTokens, now: EpochSeconds): boolean {
  return expiresAt === undefined || expiresAt > now + leastSeconds;
}
