import type { OAuthClient, OAuthClientStore } from '#server/credentials/oauth-client';
import { hashSecret, mintSecret } from '#server/credentials/secret-format';

/** An OAuth client of `acme/sales` with every member; `but` changes some. */
export function someClient(but: Partial<OAuthClient> = {}): OAuthClient {
  return {
    id: 'client_000000000000000000000000',
    name: 'Claude',
    serverId: 'srv_sales',
    serverPath: 'acme/sales',
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    redirectUris: [],
    jwks: undefined,
    authenticationRequired: false,
    createdAt: 1_700_000_000,
    lastUsedAt: undefined,
    revokedAt: undefined,
    ...but,
  };
}

export interface MemoryClients extends Pick<OAuthClientStore, 'byId' | 'hasSecret'> {
  /** Keeps a client under a new secret, which comes back. */
  keep(client: OAuthClient): string;
  /** How often the store was asked about a secret. */
  readonly secretsAsked: () => number;
}

/** OAuth clients in memory, each with one secret. */
export function memoryClients(): MemoryClients {
  const clients = new Map<string, { client: OAuthClient; hash: string }>();
  let asked = 0;
  return {
    keep(client) {
      const secret = mintSecret('secret_');
      clients.set(client.id, { client, hash: hashSecret(secret) });
      return secret;
    },
    secretsAsked: () => asked,
    byId: async (id) => clients.get(id)?.client,
    async hasSecret(clientId, hash) {
      asked += 1;
      return clients.get(clientId)?.hash === hash;
    },
  };
}
