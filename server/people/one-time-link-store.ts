import type { EpochSeconds } from '#clock/clock';

/** What a link may be used for, once: make the first owner, or set a new password. */
export type LinkPurpose =
  | { readonly type: 'set-up' }
  | { readonly type: 'reset'; readonly userId: string };

/** Where one-time links are kept, by the SHA-256 of their token. */
export interface OneTimeLinkStore {
  /** From now on the only link for this purpose. */
  add(tokenHash: string, purpose: LinkPurpose, expiresAt: EpochSeconds): Promise<void>;

  /** What an unused, live link is for; looking uses nothing up. */
  peek(tokenHash: string, now: EpochSeconds): Promise<LinkPurpose | undefined>;

  /** Uses it up: `undefined` for everybody but the first. */
  take(tokenHash: string, now: EpochSeconds): Promise<LinkPurpose | undefined>;
}
