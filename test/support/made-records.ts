import { listClients, type NewOAuthClient, putDocumentedClient } from '#server/db/clients';
import { listKeys, type NewApiKey } from '#server/db/keys';
import { findOrganization, insertOrganization } from '#server/db/organizations';
import { findServer, insertServer, type NewServer } from '#server/db/servers';
import type { Db } from '#server/db/transaction';
import type { Connection } from './databases.ts';

/** When everything here was made. */
export const madeAt = 1_700_000_000;

/** Makes an organization with the id `org_{name}`. */
export async function makeOrganization({ db }: Pick<Connection, 'db'>, name = 'acme') {
  await insertOrganization(db, { id: `org_${name}`, name, createdAt: madeAt });
}

/** Makes `{organization}/{name}` with the ids `srv_{name}` and `target_{name}`, and its organization where there is none. */
export async function makeServer(
  connection: Pick<Connection, 'db'>,
  name = 'sales',
  {
    organization = 'acme',
    upstream = { kind: 'demo' },
    ...policies
  }: { organization?: string } & Partial<Pick<NewServer, 'upstream' | 'newTools'>> = {},
) {
  await makeOrganization(connection, organization);
  const owner = `org_${organization}`;
  const ids = { id: `srv_${name}`, targetId: `target_${name}`, organizationId: owner };
  await insertServer(connection.db, { ...ids, ...policies, name, upstream, createdAt: madeAt });
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

/** Stores the client of Latchkey's own proxy, and grants of people that let it use a server. */
export async function connectProxy(
  db: Db,
  { people, serverId, now }: { people: readonly string[]; serverId: string; now: number },
): Promise<void> {
  const id = 'http://127.0.0.1:8787/oauth/clients/latchkey.json';
  const document = { id, name: 'Latchkey', redirectUris: [], jwks: undefined };
  await putDocumentedClient(db, { ...document, isLatchkeyProxy: true }, now);
  const grants = people.map((person) => ({
    id: `grant_of_${person}`,
    person_id: person,
    client_id: id,
    endpoint_id: serverId,
    scopes: '[]',
    redirect_host: '127.0.0.1',
    authenticated: 0,
    created_at: now,
    expires_at: now + 3600,
    revoked_at: null,
  }));
  await db.insertInto('oauth_grant').values(grants).execute();
}

/** The keys of an organization's servers, or of one of them, the oldest first. */
export async function keysOf(db: Db, organization: string, server?: string) {
  return (await listKeys(db, { ...(await wholeList(db, organization, server)), now: madeAt }))
    .items;
}

/** The clients of an organization's servers, or of one of them, the oldest first. */
export async function clientsOf(db: Db, organization: string, server?: string) {
  return (await listClients(db, await wholeList(db, organization, server))).items;
}

async function wholeList(db: Db, organization: string, server: string | undefined) {
  const owner = await findOrganization(db, organization);
  const found = server === undefined ? undefined : await findServer(db, organization, server);
  return {
    organizationId: owner?.id ?? '',
    ...(server !== undefined && { serverId: found?.id ?? '' }),
    sort: 'createdAt',
    descending: false,
    limit: 1000,
    offset: 0,
  } as const;
}
