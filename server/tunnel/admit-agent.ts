import type { Clock } from '#clock/clock';
import { hashSecret, isWellFormedSecret } from '#credentials/secret-format';
import type { AdmittedAgent, AgentDirectory } from './agent-directory.ts';

/**
 * The agent that the one `X-API-Key` of a request lets in; `undefined` for every other header, and for a key
 * that is no agent's, without asking the database where its checksum says so.
 *
 * `rawHeaders` are names and values in turn, so that a repeated header is seen.
 */
export async function admitAgent(
  rawHeaders: readonly string[],
  { directory, clock }: { directory: AgentDirectory; clock: Clock },
): Promise<AdmittedAgent | undefined> {
  const keys = valuesOf('x-api-key', rawHeaders);
  const [key = ''] = keys;
  if (keys.length !== 1 || !isWellFormedSecret('pk_live_', key)) return undefined;
  return directory.byKey({ keyHash: hashSecret(key), now: clock.now() });
}

function valuesOf(name: string, rawHeaders: readonly string[]): string[] {
  const values: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() === name) values.push(rawHeaders[index + 1] ?? '');
  }
  return values;
}
