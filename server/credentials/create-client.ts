import type { Clock } from '#clock/clock';
import type { NewOAuthClient, OAuthClientStore } from './oauth-client.ts';
import { hashSecret, mintSecret, randomBase62, secretHint } from './secret-format.ts';

type Chosen = Pick<NewOAuthClient, 'name' | 'serverId' | 'scopes' | 'redirectUris' | 'jwks'>;

/** Makes an OAuth client. This is the only time that its secret is there to be shown. */
export async function createClient(
  chosen: Chosen,
  { clients, clock }: { clients: Pick<OAuthClientStore, 'add'>; clock: Clock },
): Promise<{ id: string; secret: string }> {
  const id = `client_${randomBase62(24)}`;
  const secret = mintSecret('secret_');
  const kept = { secretHash: hashSecret(secret), secretHint: secretHint(secret) };
  await clients.add({ ...chosen, id, ...kept, createdAt: clock.now() });
  return { id, secret };
}
