import { headerLines } from 'latchkey-mcp/headers';

import type { Clock, EpochSeconds } from '#clock/clock';
import { hashSecret, isWellFormedSecret } from '#oauth/secrets';

/** An agent that authenticated with a key. */
export interface AdmittedAgent {
  readonly id: string;
  readonly name: string;
  readonly organization: string;
  readonly keyId: string;
  readonly keyExpiresAt: EpochSeconds | undefined;
  /** The names of the servers that are bound to it. */
  readonly servers: readonly string[];
}

/** Looks up which keys are valid, and for which agents. */
export interface AgentDirectory {
  /**
   * `undefined` for a key that is unknown, revoked or expired, or whose agent or organization is revoked or
   * disabled. Deliberately not distinguished.
   */
  byKey(at: { keyHash: string; now: EpochSeconds }): Promise<AdmittedAgent | undefined>;

  /** The keys among these that are still valid, each with the servers that are bound to its agent. */
  activeKeys(keyIds: readonly string[], now: EpochSeconds): Promise<Map<string, readonly string[]>>;

  /** A token that changes whenever any process writes to the database. Very cheap. */
  changeToken(): string;
}

/**
 * Returns the agent whose key is in the `X-API-Key` header; `undefined` when the header is missing or repeated, or the
 * key is not a valid agent key. A key with a wrong checksum is refused without asking the database.
 *
 * `rawHeaders` alternate names and values, so that a repeated header is noticed.
 */
export async function admitAgent(
  rawHeaders: readonly string[],
  { directory, clock }: { directory: AgentDirectory; clock: Clock },
): Promise<AdmittedAgent | undefined> {
  const [only, another] = headerLines(rawHeaders, 'x-api-key');
  if (!only || another || !isWellFormedSecret('pk_live_', only.value)) return undefined;
  return directory.byKey({ keyHash: hashSecret(only.value), now: clock.now() });
}

/** Why an agent is refused. `http/error-answers.ts` maps it to a status and a message. */
export type TunnelRefusalCode = 'no_upgrade' | 'browser' | 'bad_subprotocol' | 'full';

export class TunnelRefusal extends Error {
  override readonly name = 'TunnelRefusal';
  readonly code: TunnelRefusalCode;

  constructor(code: TunnelRefusalCode) {
    super(code);
    this.code = code;
  }
}
