import { insertClient, revokeClient, type OAuthClient } from '#server/db/clients';
import { hashSecret, mintSecret, secretHint } from '#server/secrets/secrets';
import type { OpenStores } from '#server/app/stores';
import { makeServer } from './made-records.ts';
import { openDatabase } from './open-database.ts';

/** An OAuth client of `acme/sales` with every member; `but` changes some. */
export function someClient(but: Partial<OAuthClient> = {}): OAuthClient {
  return {
    id: 'client_000000000000000000000000',
    name: 'Claude',
    serverId: 'srv_sales',
    serverPath: 'acme/sales',
    organization: 'acme',
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    tools: { type: 'all' },
    redirectUris: [],
    jwks: undefined,
    authenticationRequired: false,
    isLatchkeyProxy: false,
    isSuspended: false,
    createdAt: 1_700_000_000,
    lastUsedAt: undefined,
    revokedAt: undefined,
    ...but,
  };
}

export type ClientDatabase = OpenStores &
  AsyncDisposable & {
    /** Stores a client with a new secret, which is returned. */
    keep(client: OAuthClient): Promise<string>;
    /** Lets every insert into a table fail with `disk full`, until `mend`. */
    breakWrites(table: string): void;
    mend(): void;
  };

/** A database with the server `acme/sales`. */
export async function clientDatabase(): Promise<ClientDatabase> {
  const database = await openDatabase();
  await makeServer(database);
  return {
    ...database,
    async keep(client) {
      const secret = mintSecret('secret_');
      const hashed = { secretHash: hashSecret(secret), secretHint: secretHint(secret) };
      await insertClient(database.db, { ...client, ...hashed });
      if (client.revokedAt !== undefined) {
        await revokeClient(database.db, client.id, client.revokedAt);
      }
      return secret;
    },
    breakWrites(table) {
      database.connection.exec(
        `create temp trigger broken before insert on main.${table} begin select raise(abort, 'disk full'); end`,
      );
    },
    mend: () => database.connection.exec('drop trigger broken'),
  };
}
