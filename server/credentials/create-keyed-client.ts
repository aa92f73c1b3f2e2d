import type { Clock } from '#clock/clock';
import type { NewOAuthClient, OAuthClientStore } from './oauth-client.ts';
import { randomBase62 } from './secret-format.ts';

type Chosen = Pick<NewOAuthClient, 'name' | 'serverId' | 'scopes' | 'redirectUris'>;

/** Makes an OAuth client that proves itself by its keys, and has no secret that somebody could take. */
export async function createKeyedClient(
  { jwks, ...chosen }: Chosen & { jwks: string },
  { clients, clock }: { clients: Pick<OAuthClientStore, 'add'>; clock: Clock },
): Promise<{ id: string }> {
  const id = `client_${randomBase62(24)}`;
  const none = { secretHash: undefined, secretHint: undefined };
  await clients.add({ ...chosen, jwks, id, ...none, createdAt: clock.now() });
  return { id };
}
