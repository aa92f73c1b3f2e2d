import type { Clock } from '#clock/clock';
import type { ApiKeyStore, NewApiKey } from './api-key.ts';
import { hashSecret, mintSecret, randomBase62, secretHint } from './secret-format.ts';

type Chosen = Pick<NewApiKey, 'name' | 'owner' | 'scopes' | 'expiresAt'>;

/** Makes a key for its owner, `mcp_…` or `pk_live_…`. This is the only time that it can be shown. */
export async function createKey(
  chosen: Chosen,
  { keys, clock }: { keys: Pick<ApiKeyStore, 'add'>; clock: Clock },
): Promise<{ id: string; key: string }> {
  const id = `key_${randomBase62(16)}`;
  const key = mintSecret(chosen.owner.type === 'server' ? 'mcp_' : 'pk_live_');
  const kept = { hash: hashSecret(key), hint: secretHint(key) };
  await keys.add({ ...chosen, id, ...kept, createdAt: clock.now() });
  return { id, key };
}
