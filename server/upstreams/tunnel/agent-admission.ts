import { headerLines } from 'latchkey-mcp/headers';

import type { Clock } from '#model/clock';
import type { AgentDirectory, AdmittedAgent } from '#db/agent-directory';
import { hashSecret, isWellFormedSecret } from '#secrets/secrets';

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
