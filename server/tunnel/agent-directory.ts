import type { EpochSeconds } from '#clock/clock';

/** An agent that a key let in. */
export interface AdmittedAgent {
  readonly id: string;
  readonly name: string;
  readonly organization: string;
  readonly keyId: string;
  readonly keyExpiresAt: EpochSeconds | undefined;
  /** The names of the servers that are bound to it. */
  readonly servers: readonly string[];
}

/** Says which agents keys let in, at this moment. */
export interface AgentDirectory {
  /**
   * `undefined` for a key that is unknown, revoked or expired, or whose agent or organization is revoked or
   * disabled: nobody learns which.
   */
  byKey(at: { keyHash: string; now: EpochSeconds }): Promise<AdmittedAgent | undefined>;

  /** Of these keys those that still let in, each with the servers that are bound to its agent. */
  standing(keyIds: readonly string[], now: EpochSeconds): Promise<Map<string, readonly string[]>>;

  /** Another text than before, once anything at all was written. Costs next to nothing. */
  written(): string;
}
