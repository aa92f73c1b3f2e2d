import type { Selectable } from 'kysely';

import { type Awaitable, whenReady } from '#model/awaitable';
import type { EpochSeconds } from '#model/clock';
import { ordinaryScopes } from '#model/scopes';
import type { ToolSelection } from '#model/tool-rights';
import type { Page, PageQuery } from '#model/page';
import { insertSecret } from './client-secrets.ts';
import {
  containsText,
  nullsSmallest,
  ownerOf,
  readScopes,
  readSelection,
  readStrings,
  selectionText,
  countRows,
} from './columns.ts';
import type { Schema } from './schema.ts';
import type { KeptQuery } from './kept-query.ts';
import { immediateQuery, keptQuery } from './prepared-query.ts';
import { isServerOf } from './servers.ts';
import { transaction, type Db } from './transaction.ts';

/**
 * An application that may request tokens: for the one MCP server it was created for, for servers of the organization it was
 * created for or, if it registered itself, for any server that a person lets it use.
 */
export type OAuthClient = ReturnType<typeof readClient>;

function readClient(row: ClientRow) {
  return {
    /** `client_` and 24 base62 characters, or the https URL of a client ID metadata document. */
    id: row.id,
    name: row.name,
    /** `undefined` for a client of a whole organization, and for one that registered itself. */
    serverId: row.endpoint_id ?? undefined,
    /** The MCP endpoint that its tokens are for: `{organization}/{server}`. `undefined` when `serverId` is. */
    serverPath: row.endpoint_id === null ? undefined : `${row.organization}/${row.server}`,
    /** The name of its organization. `undefined` for a client that registered itself, by a metadata document or dynamically. */
    organization: row.organization ?? undefined,
    /** The scopes that its tokens can have at most. */
    scopes: readScopes(row.scopes),
    /** The tools, prompts and resources that it may use, for itself or for people, as far as its scopes allow. */
    tools: readSelection(row.tool_selection),
    redirectUris: readStrings(row.redirect_uris),
    /** Public keys for `private_key_jwt`: the text of a JWKS document. */
    jwks: row.jwks ?? undefined,
    /**
     * Whether the token endpoint always requires client authentication: it has keys, belongs to a whole organization, or
     * registered itself with a secret.
     * A client that an administrator created with a secret may redeem a code without the secret.
     */
    authenticationRequired: row.jwks !== null || row.authentication_required === 1,
    /** Whether this is the client of Latchkey's own proxy, which belongs to no server or organization. */
    isLatchkeyProxy: row.is_latchkey_proxy === 1,
    /** Whether it is refused because its owner left the organization. */
    isSuspended: row.suspended_at !== null,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  } as const;
}

export interface ListedOAuthClient extends OAuthClient {
  /** Prefix and last four characters of its newest secret. */
  readonly secretHint: string | undefined;
  /** Issuer and subject of the rule that replaces its secret, for the client of a workload. */
  readonly trusts?: { readonly issuer: string; readonly subject: string } | undefined;
}

/** A client to insert. Of its secret, only the hash and a hint are stored; a public client has none. */
export interface NewOAuthClient extends Pick<
  OAuthClient,
  'id' | 'name' | 'serverId' | 'scopes' | 'redirectUris' | 'jwks' | 'createdAt'
> {
  /** The organization, for a client that belongs to the whole organization. */
  readonly organizationId?: string | undefined;
  /** Default: all. */
  readonly tools?: ToolSelection | undefined;
  /** Default: `false`; keys require it in any case. */
  readonly authenticationRequired?: boolean;
  readonly secretHash: string | undefined;
  readonly secretHint: string | undefined;
  /** The actor who created the client, as the audit log names it. If it is a person, they become the owner of the client. */
  readonly createdBy?: string | undefined;
}

/** The content of a client ID metadata document. */
export interface DocumentedClient {
  /** The document's own URL. */
  readonly id: string;
  readonly name: string;
  readonly redirectUris: readonly string[];
  /** Public keys for `private_key_jwt`, as JSON text. */
  readonly jwks: string | undefined;
  /** Whether the document is this server's own, about Latchkey's proxy; default `false`. */
  readonly isLatchkeyProxy?: boolean;
}

export interface ClientQuery extends PageQuery<'name' | 'createdAt' | 'lastUsedAt'> {
  readonly organizationId: string;
  readonly serverId?: string | undefined;
  readonly status?: 'active' | 'revoked' | undefined;
}

/** A change to a client. Omitted members keep their value. */
export type ClientChange = Partial<
  Pick<OAuthClient, 'name' | 'scopes' | 'tools' | 'redirectUris' | 'jwks'>
>;

/** Inserts a client, with its first secret if it has one. */
export async function insertClient(
  db: Db,
  { secretHash, secretHint, createdBy, ...client }: NewOAuthClient,
): Promise<void> {
  await transaction(db, async (tx) => {
    const isSelfRegistered = client.serverId === undefined && client.organizationId === undefined;
    if (isSelfRegistered) await deleteIdleClients(tx, client.createdAt);
    await tx
      .insertInto('oauth_client')
      .values({
        id: client.id,
        endpoint_id: client.serverId ?? null,
        organization_id:
          client.organizationId ??
          ((select) =>
            select
              .selectFrom('endpoint')
              .select('organization_id')
              .where('id', '=', client.serverId ?? null)),
        name: client.name,
        scopes: JSON.stringify(client.scopes),
        tool_selection: selectionText(client.tools),
        redirect_uris: JSON.stringify(client.redirectUris),
        jwks: client.jwks ?? null,
        authentication_required: client.authenticationRequired ? 1 : 0,
        fetched_at: null,
        created_at: client.createdAt,
        last_used_at: null,
        revoked_at: null,
        owner_id: ownerOf(createdBy),
      })
      .execute();
    if (secretHash === undefined) return;
    const { id: clientId, createdAt } = client;
    const secret = { hash: secretHash, hint: secretHint ?? '', createdBy };
    await insertSecret(tx, { clientId, createdAt, ...secret });
  });
}

/** Finds revoked clients too. */
export function findClient(db: Db, id: string): Awaitable<OAuthClient | undefined> {
  return whenReady(clientById(db, id), ([row]) => row && readClient(row));
}

const clientById = immediateQuery((db, id: string) =>
  db
    .selectFrom('oauth_client')
    .leftJoin('endpoint', 'endpoint.id', 'oauth_client.endpoint_id')
    .leftJoin('organization', 'organization.id', 'oauth_client.organization_id')
    .selectAll('oauth_client')
    .select(['organization.name as organization', 'endpoint.name as server'])
    .where('oauth_client.id', '=', id),
);

/** The columns that a client is read from when it asks for a token, except `created_at` and `last_used_at`. */
export const callingClientColumns = [
  'id',
  'endpoint_id',
  'name',
  'scopes',
  'redirect_uris',
  'jwks',
  'authentication_required',
  'is_latchkey_proxy',
  'suspended_at',
  'revoked_at',
  'tool_selection',
] as const;

/** A client that asks for a token, revoked or not. */
export const callingClient: KeptQuery<OAuthClient, ClientRow> = {
  name: 'calling_client',
  sql: `select ${callingClientColumns.map((column) => `client.${column}`).join(', ')}, client.created_at,
      client.last_used_at, organization.name as organization, endpoint.name as server
    from oauth_client client
    left join endpoint on endpoint.id = client.endpoint_id
    left join organization on organization.id = client.organization_id
    where client.id = :client`,
  parameters: ['client'],
  read: readClient,
};

const findKept = keptQuery(callingClient);

/** Like `findClient`, but on PostgreSQL `lastUsedAt` may be older, because a client is read again only when another of its columns changes. */
export function findCallingClient(db: Db, id: string): Awaitable<OAuthClient | undefined> {
  return findKept(db, { client: id });
}

const sortColumns = {
  name: 'oauth_client.name',
  createdAt: 'oauth_client.created_at',
  lastUsedAt: 'oauth_client.last_used_at',
} as const;

/** Lists clients that administrators created for a server, or for a whole organization. */
export async function listClients(db: Db, query: ClientQuery): Promise<Page<ListedOAuthClient>> {
  const { organizationId, serverId, status, text } = query;
  const all = db
    .selectFrom('oauth_client')
    .$if(serverId === undefined, (of) =>
      of.where('oauth_client.organization_id', '=', organizationId),
    )
    .$if(serverId !== undefined, (of) =>
      of
        .where('oauth_client.endpoint_id', '=', serverId ?? '')
        .where((where) => isServerOf(where, serverId ?? '', organizationId)),
    )
    .$if(status === 'active', (of) => of.where('oauth_client.revoked_at', 'is', null))
    .$if(status === 'revoked', (of) => of.where('oauth_client.revoked_at', 'is not', null))
    .$if(text !== undefined, (of) =>
      of.where((where) => containsText(where.ref('oauth_client.name'), text ?? '')),
    );
  const rows = await all
    .leftJoin('endpoint', 'endpoint.id', 'oauth_client.endpoint_id')
    .innerJoin('organization', 'organization.id', 'oauth_client.organization_id')
    .leftJoin('trust_rule', 'trust_rule.client_id', 'oauth_client.id')
    .selectAll('oauth_client')
    .select(['trust_rule.issuer as trusted_issuer', 'trust_rule.subject as trusted_subject'])
    .select(['organization.name as organization', 'endpoint.name as server'])
    .select((select) =>
      select
        .selectFrom('client_secret')
        .select('client_secret.hint')
        .whereRef('client_secret.client_id', '=', 'oauth_client.id')
        .orderBy('client_secret.created_at', 'desc')
        .limit(1)
        .as('secret_hint'),
    )
    .orderBy(sortColumns[query.sort], nullsSmallest(query.descending))
    .orderBy('oauth_client.id', query.descending ? 'desc' : 'asc')
    .limit(query.limit)
    .offset(query.offset)
    .execute();
  const total = await countRows(all);
  const items = rows.map((row) =>
    Object.assign(readClient(row), {
      secretHint: row.secret_hint ?? undefined,
      ...(row.trusted_issuer !== null && {
        trusts: { issuer: row.trusted_issuer, subject: row.trusted_subject ?? '' },
      }),
    }),
  );
  return { items, total };
}

/** Takes effect on the next request. @returns `false` when there is no such client, or it is revoked */
export async function updateClient(
  db: Db,
  id: string,
  { name, scopes, tools, redirectUris, jwks }: ClientChange,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('oauth_client')
    .set({
      id,
      ...(name !== undefined && { name }),
      ...(scopes && { scopes: JSON.stringify(scopes) }),
      ...(tools && { tool_selection: selectionText(tools) }),
      ...(redirectUris && { redirect_uris: JSON.stringify(redirectUris) }),
      ...(jwks !== undefined && { jwks }),
    })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** @returns `false` when there is no such client, or it is already revoked */
export async function revokeClient(db: Db, id: string, now: EpochSeconds): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('oauth_client')
    .set({ revoked_at: now })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** How many people have an active grant for this client. */
export async function countClientPeople(
  db: Db,
  clientId: string,
  now: EpochSeconds,
): Promise<number> {
  const { count } = await db
    .selectFrom('oauth_grant')
    .select(({ fn }) => fn.count('person_id').distinct().as('count'))
    .where('client_id', '=', clientId)
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', now)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** The client that the metadata document at `url` described when it was last read. */
export async function findDocumentedClient(
  db: Db,
  url: string,
): Promise<{ client: OAuthClient; fetchedAt: EpochSeconds } | undefined> {
  const row = await db
    .selectFrom('oauth_client')
    .selectAll()
    .where('id', '=', url)
    .where('fetched_at', 'is not', null)
    .executeTakeFirst();
  if (!row) return undefined;
  const client = readClient({ ...row, organization: null, server: null });
  return { client, fetchedAt: row.fetched_at ?? 0 };
}

/**
 * Stores the content of a metadata document in place of the earlier one. A revoked client stays revoked. If the content has
 * not changed, only the time is written, so that nodes on PostgreSQL do not read their admissions again.
 */
export async function putDocumentedClient(
  db: Db,
  { id, name, redirectUris, jwks, isLatchkeyProxy }: DocumentedClient,
  fetchedAt: EpochSeconds,
): Promise<void> {
  const described: Omit<DocumentColumns, 'id'> = {
    name,
    redirect_uris: JSON.stringify(redirectUris),
    jwks: jwks ?? null,
    is_latchkey_proxy: isLatchkeyProxy ? 1 : 0,
  };
  const { numUpdatedRows } = await db
    .updateTable('oauth_client')
    .set({ fetched_at: fetchedAt })
    .where('id', '=', id)
    .where('name', '=', described.name)
    .where('redirect_uris', '=', described.redirect_uris)
    .where('jwks', 'is not distinct from', described.jwks)
    .where('is_latchkey_proxy', '=', described.is_latchkey_proxy)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) await replaceDocumentedClient(db, { id, ...described }, fetchedAt);
  await deleteIdleClients(db, fetchedAt);
}

async function replaceDocumentedClient(
  db: Db,
  { id, ...document }: DocumentColumns,
  fetchedAt: EpochSeconds,
): Promise<void> {
  const described = { ...document, fetched_at: fetchedAt };
  await db
    .insertInto('oauth_client')
    .values({
      id,
      endpoint_id: null,
      organization_id: null,
      scopes: JSON.stringify(ordinaryScopes),
      created_at: fetchedAt,
      last_used_at: null,
      revoked_at: null,
      ...described,
    })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(described))
    .execute();
}

interface DocumentColumns {
  readonly id: string;
  readonly name: string;
  readonly redirect_uris: string;
  readonly jwks: string | null;
  readonly is_latchkey_proxy: 0 | 1;
}

const idleSeconds = 30 * 24 * 3600;

/**
 * Deletes clients that registered themselves, have no grant or valid consent, and were not used or read for thirty days, because
 * anyone can create more of them. Revoked clients are kept, so that they stay revoked.
 */
async function deleteIdleClients(db: Db, now: EpochSeconds): Promise<void> {
  const since = now - idleSeconds;
  await db
    .deleteFrom('oauth_client')
    .where('organization_id', 'is', null)
    .where('revoked_at', 'is', null)
    .where('created_at', '<', since)
    .where((where) => where.or([where('fetched_at', 'is', null), where('fetched_at', '<', since)]))
    .where((where) =>
      where.or([where('last_used_at', 'is', null), where('last_used_at', '<', since)]),
    )
    .where('id', 'not in', (select) => select.selectFrom('oauth_grant').select('client_id'))
    .where('id', 'not in', (select) =>
      select.selectFrom('consent').select('client_id').where('expires_at', '>', now),
    )
    .execute();
}

type ClientRow = Omit<
  Selectable<Schema['oauth_client']>,
  'organization_id' | 'fetched_at' | 'owner_id' | 'ownerless_at'
> & {
  organization: string | null;
  server: string | null;
};
