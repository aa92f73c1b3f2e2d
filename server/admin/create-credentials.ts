import type { Clock } from '#model/clock';
import { insertClient, type NewOAuthClient } from '#db/clients';
import { insertKey, type NewApiKey } from '#db/keys';
import type { Db } from '#db/transaction';
import { hashSecret, mintSecret, randomBase62, secretHint } from '#secrets/secrets';

type ChosenClient = Pick<
  NewOAuthClient,
  | 'name'
  | 'serverId'
  | 'organizationId'
  | 'scopes'
  | 'tools'
  | 'redirectUris'
  | 'jwks'
  | 'authenticationRequired'
  | 'createdBy'
>;

/** Creates an OAuth client. Its secret is available only in this result. */
export async function createClient(
  chosen: ChosenClient,
  { db, clock }: { db: Db; clock: Clock },
): Promise<{ id: string; secret: string }> {
  const id = `client_${randomBase62(24)}`;
  const secret = mintSecret('secret_');
  const kept = { secretHash: hashSecret(secret), secretHint: secretHint(secret) };
  await insertClient(db, { ...chosen, id, ...kept, createdAt: clock.now() });
  return { id, secret };
}

/** Creates an OAuth client that authenticates with its keys or, if it has none, with a secret, which is available only in this result. */
export async function createProvedClient(
  { jwks, ...chosen }: Omit<ChosenClient, 'jwks'> & { readonly jwks: object | undefined },
  ports: { db: Db; clock: Clock },
): Promise<{ id: string; secret: string | null }> {
  if (jwks === undefined) return createClient({ ...chosen, jwks }, ports);
  const id = `client_${randomBase62(24)}`;
  const keyed = { jwks: JSON.stringify(jwks), secretHash: undefined, secretHint: undefined };
  await insertClient(ports.db, { ...chosen, ...keyed, id, createdAt: ports.clock.now() });
  return { id, secret: null };
}

type ChosenKey = Omit<NewApiKey, 'id' | 'hash' | 'hint' | 'createdAt'>;

/** Creates a key, `mcp_…` or `pk_live_…`. It is available only in this result. */
export async function createKey(
  chosen: ChosenKey,
  { db, clock }: { db: Db; clock: Clock },
): Promise<{ id: string; key: string }> {
  const id = `key_${randomBase62(16)}`;
  const key = mintSecret(chosen.owner.type === 'server' ? 'mcp_' : 'pk_live_');
  const kept = { hash: hashSecret(key), hint: secretHint(key) };
  await insertKey(db, { ...chosen, id, ...kept, createdAt: clock.now() });
  return { id, key };
}
