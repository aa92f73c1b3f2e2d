import type { EpochSeconds } from '#clock/clock';

/** A WebAuthn credential of a person. */
export interface Passkey {
  /** The credential id, base64url. */
  readonly id: string;
  readonly userId: string;
  readonly name: string;
  /** COSE key, base64url. */
  readonly publicKey: string;
  readonly counter: number;
  readonly transports: readonly string[];
  readonly createdAt: EpochSeconds;
  readonly lastUsedAt: EpochSeconds | undefined;
}

/** Where passkeys are kept. */
export interface PasskeyStore {
  /** `false` when somebody has it already. */
  add(passkey: Passkey): Promise<boolean>;

  byId(id: string): Promise<Passkey | undefined>;

  list(userId: string): Promise<Passkey[]>;

  /** Moves the counter on by compare-and-set; `false` when it was not `from` any more: a clone. */
  used(id: string, counter: { from: number; to: number }, now: EpochSeconds): Promise<boolean>;

  remove(userId: string, id: string): Promise<boolean>;
}
