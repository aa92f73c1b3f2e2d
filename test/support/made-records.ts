import type { NewApiKey } from '#server/credentials/api-key';
import type { NewOAuthClient } from '#server/credentials/oauth-client';
import type { NewServer } from '#server/organizations/server-record';
import type { Connection } from './store-adapters.ts';

/** When everything here was made. */
export const madeAt = 1_700_000_000;

/** Makes an organization with the id `org_{name}`. */
export async function makeOrganization(
  { organizations }: Pick<Connection, 'organizations'>,
  name = 'acme',
) {
  await organizations.add({ id: `org_${name}`, name, createdAt: madeAt });
}

/** Makes `{organization}/{name}` with the id `srv_{name}`, and its organization where there is none. */
export async function makeServer(
  connection: Pick<Connection, 'organizations'>,
  name = 'sales',
  {
    organization = 'acme',
    upstream = { kind: 'demo' },
  }: { organization?: string; upstream?: NewServer['upstream'] } = {},
) {
  await makeOrganization(connection, organization);
  const owner = `org_${organization}`;
  const server = { id: `srv_${name}`, organizationId: owner, name, upstream, createdAt: madeAt };
  await connection.organizations.addServer(server);
}

export function newClient(but: Partial<NewOAuthClient> = {}): NewOAuthClient {
  return {
    id: 'client_a',
    name: 'Claude',
    serverId: 'srv_sales',
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    redirectUris: ['http://127.0.0.1/callback'],
    jwks: undefined,
    secretHash: 'hash of a',
    secretHint: 'secret_…aaaa',
    createdAt: madeAt,
    ...but,
  };
}

export function newKey(but: Partial<NewApiKey> = {}): NewApiKey {
  return {
    id: 'key_a',
    name: 'laptop',
    owner: { type: 'server', serverId: 'srv_sales' },
    hash: 'hash of a',
    hint: 'mcp_…aaaa',
    scopes: ['mcp:tools:read'],
    createdAt: madeAt,
    expiresAt: undefined,
    ...but,
  };
}
