import { sql } from 'kysely';
import { isRole } from '#model/roles';
import { type Awaitable, whenReady } from '#model/awaitable';

import type { Suspension } from '#model/suspension';
import { readScopes } from './columns.ts';
import { type KeptQuery, type ReadKept, withValues } from './kept-query.ts';
import { readServer, targetColumns, type ServerRow } from './server-rows.ts';
import { type ServerRecord } from '#model/endpoints';
import { isPostgres, type Db } from './transaction.ts';
import type { EpochSeconds } from '#model/clock';
import { readToolSelection, type ToolCaller } from '#model/tool-rights';
import { allScopes, limitedScopes, roleScopes, type Scope } from '#model/scopes';

/** A server and the credential's access to it, looked up for every request. */
export interface AdmittedKey {
  readonly endpoint: ServerRecord;
  /** The groups and selections that decide which tools the caller may use. */
  readonly toolCaller: ToolCaller;
  readonly keyId: string;
  readonly scopes: readonly Scope[];
}

export interface AdmittedClient {
  readonly endpoint: ServerRecord;
  /** The groups and selections that decide which tools the caller may use. */
  readonly toolCaller: ToolCaller;
  /** The most scopes that the client may have now, also limited to those of the person it acts for. */
  readonly scopes: readonly Scope[];
}

/** A valid credential that a setting suspends: it admits no caller until the setting is changed back. */
export interface Suspended {
  readonly suspension: Suspension;
  readonly endpoint: ServerRecord;
  /** Set for an API key; for the audit log. */
  readonly keyId?: string;
}

/**
 * Looks up whether a credential is valid for a server now. `undefined` if the credential is unknown, revoked, expired or of
 * another server; if its grant was revoked; if its person left or is in none of the server's groups; or if the server is missing,
 * or the organization is missing or disabled. These cases are deliberately not distinguished.
 *
 * If `asOf` is given, the answer is returned synchronously where the store can do so. `asOf` must come from `changeToken()`,
 * called in the same turn, after the request arrived.
 */
export interface AdmissionStore {
  byKey(at: {
    organization: string;
    server: string;
    keyHash: string;
    now: EpochSeconds;
    asOf?: string | undefined;
  }): Awaitable<AdmittedKey | Suspended | undefined>;

  byClient(at: {
    organization: string;
    server: string;
    clientId: string;
    /** The token's `jti`. Omit it to find out whether any token of the client would be admitted. */
    tokenId?: string | undefined;
    /** The grant and the person, for a token that was issued for a grant. */
    grant?: { id: string; userId: string } | undefined;
    asOf?: string | undefined;
  }): Awaitable<AdmittedClient | Suspended | undefined>;

  /** Admits a member of the server's organization, with the scopes of their role. */
  byPerson(at: {
    organization: string;
    server: string;
    userId: string;
  }): Awaitable<AdmittedClient | Suspended | undefined>;

  /**
   * Admits callers of a collection to one of its members: a person only if they may use the member, too. A key or a client of the
   * collection needs no access of its own, because an administrator named the member.
   */
  byMember(at: {
    organization: string;
    server: string;
    /** The id of the collection's endpoint. */
    collectionId: string;
    userId: string | undefined;
    asOf?: string | undefined;
  }): Awaitable<AdmittedClient | Suspended | undefined>;

  /** A token that changes whenever any process writes what admissions depend on. Very cheap. */
  changeToken(): string;
}

/** The columns of `endpoint` that a `ServerRecord` is read from. */
const endpointColumns = ['id', 'name', 'limits', 'created_at'] as const;

/** All columns that a `ServerRecord` is read from, including those of its target. */
const ofServer = ['organization', ...endpointColumns, 'target_id', ...targetColumns] as const;

const server = [
  'o.name as organization, t.id as target_id',
  ...endpointColumns.map((column) => `s.${column}`),
  ...targetColumns.map((column) => `t.${column}`),
].join(', ');

/** Place this directly after the join of `endpoint`: PostgreSQL is set to join in the order of the text. */
const itsTarget = `join target t on t.endpoint_id = s.id`;

const named = `o.name = :organization and s.name = :server and o.disabled_at is null`;

const disabled = `when s.disabled_at is not null then 'server'`;

/** If a server is restricted to groups, only their members may use it. `m` is the membership. */
const inGroup = `(s.access = 'everyone'
  or exists (select 1 from endpoint_group r
    join group_person p on p.group_id = r.group_id and p.person_id = m.person_id
    where r.endpoint_id = s.id))`;

/** Suspends a key or client (the alias `owned`) whose owner left, as long as no one has taken it over. */
const ownerLeft = (owned: string) => `when ${owned}.suspended_at is not null then 'owner_left'`;

/** The person's groups, if the server has tool rules that may depend on them. `m` is the membership. */
const itsGroups = `case when t.tool_rules is null then null else coalesce((
    select string_agg(p.group_id, ' ') from group_person p
    where p.person_id = m.person_id and p.organization_id = m.organization_id), '') end as groups`;

const byKeySql = `select ${server}, k.tool_selection, case ${disabled} ${ownerLeft('k')} end as suspension, k.id as key_id, k.scopes, k.expires_at
  from api_key k
  join endpoint s on s.id = k.endpoint_id
  ${itsTarget}
  join organization o on o.id = s.organization_id
  where k.hash = :hash and k.revoked_at is null and ${named}`;

const byClientSql = `select ${server}, case ${disabled} ${ownerLeft('c')} end as suspension, c.scopes, c.tool_selection
  from oauth_client c
  join endpoint s on s.id = coalesce(c.endpoint_id,
    (select e.id from endpoint e where e.organization_id = c.organization_id and e.name = :server))
  ${itsTarget}
  join organization o on o.id = s.organization_id
  where c.id = :client and c.revoked_at is null and ${named}
    and not exists (select 1 from revoked_token r where r.jti = :token)`;

/**
 * An organization may refuse self-registered clients and Latchkey's own proxy, but not its own clients or grants that its
 * identity provider vouched for.
 */
const refusedClient = `when c.organization_id is not null or g.is_by_assertion = 1 then null
  when c.is_latchkey_proxy = 1 and o.latchkey_proxy_allowed = 0 then 'latchkey_proxy'
  when c.is_latchkey_proxy = 0 and o.open_clients_allowed = 0 then 'self_registered'`;

/** `c.id || ''` prevents an index lookup by client: a client may have very many grants, but a grant has one client. */
const byGrantSql = `select ${server}, case ${disabled} ${ownerLeft('c')} ${refusedClient} end as suspension, c.scopes, m.role,
    c.tool_selection, g.tool_selection as grant_selection, ${itsGroups}
  from oauth_grant g
  join oauth_client c on c.id = g.client_id
  join endpoint s on s.id = g.endpoint_id
  ${itsTarget}
  join organization o on o.id = s.organization_id
  join membership m on m.person_id = g.person_id and m.organization_id = o.id
  where g.id = :grant and g.person_id = :person and c.id || '' = :client
    and g.revoked_at is null and c.revoked_at is null and ${named}
    and ${inGroup}
    and not exists (select 1 from revoked_token r where r.jti = :token)`;

const byPersonSql = `select ${server}, case ${disabled} end as suspension, m.role, ${itsGroups}
  from organization o
  join endpoint s on s.organization_id = o.id
  ${itsTarget}
  join membership m on m.person_id = :person and m.organization_id = o.id
  where ${named} and ${inGroup}`;

const inCollection = `join collection_member cm on cm.collection_id = :collection and cm.member_id = s.id`;

const byMemberSql = `select ${server}, case ${disabled} end as suspension, cm.tool_selection
  from organization o
  join endpoint s on s.organization_id = o.id
  ${itsTarget}
  ${inCollection}
  where ${named}`;

const byMemberPersonSql = `select ${server}, case ${disabled} end as suspension, cm.tool_selection, m.role, ${itsGroups}
  from organization o
  join endpoint s on s.organization_id = o.id
  ${itsTarget}
  ${inCollection}
  join membership m on m.person_id = :person and m.organization_id = o.id
  where ${named} and ${inGroup}`;

interface AdmissionRow extends ServerRow {
  readonly suspension: Suspension | null;
  readonly key_id: string;
  readonly scopes: string;
  readonly expires_at: number | null;
  readonly role: string;
  readonly tool_selection: string | null;
  readonly grant_selection: string | null;
  /** The ids of the person's groups, separated by spaces; null if nothing depends on them. */
  readonly groups: string | null;
}

type AdmissionQuery<Answer extends object> = KeptQuery<Answer, AdmissionRow>;

/** The records that are still referenced, by endpoint id. */
const serversInUse = new Map<string, WeakRef<ServerRecord>>();
/** The rows that records were read from. Comparing their columns takes a fraction of the time of reading them again. */
const rowsOf = new WeakMap<ServerRecord, AdmissionRow>();
const unused = new FinalizationRegistry<string>((id) => {
  if (!serversInUse.get(id)?.deref()) serversInUse.delete(id);
});

/**
 * The record of a server, shared by all admissions to it, because a record can be large and a server can have very many callers.
 */
function sharedServer(row: AdmissionRow): ServerRecord {
  const known = serversInUse.get(row.id)?.deref();
  const readFrom = known && rowsOf.get(known);
  if (readFrom && ofServer.every((column) => row[column] === readFrom[column])) return known;
  const made = readServer(row);
  serversInUse.set(row.id, new WeakRef(made));
  rowsOf.set(made, row);
  unused.register(made, row.id);
  return made;
}

/** Returns what `admitted` returns, or `Suspended` if the row has a suspension. */
function unlessSuspended<Admitted>(
  row: AdmissionRow,
  admitted: () => Admitted,
): Admitted | Suspended {
  const { suspension } = row;
  return suspension === null ? admitted() : { suspension, endpoint: sharedServer(row) };
}

/** The server of a row, with the groups and selections that decide what the caller may use. */
function usable(
  row: AdmissionRow,
  isPerson: boolean,
): Pick<AdmittedClient, 'endpoint' | 'toolCaller'> {
  const groups = isPerson ? new Set((row.groups ?? '').split(' ').filter(Boolean)) : undefined;
  // A row lacks these columns if its query does not read selections.
  const selections = [row.tool_selection, row.grant_selection].flatMap((text) =>
    text ? [readToolSelection(text)] : [],
  );
  return { endpoint: sharedServer(row), toolCaller: { groups, selections } };
}

const byKey: AdmissionQuery<{
  readonly key: AdmittedKey | Suspended;
  readonly expiresAt: number | null;
}> = {
  name: 'key',
  sql: byKeySql,
  parameters: ['organization', 'server', 'hash'],
  read: (row) => ({
    key: {
      ...unlessSuspended(row, () => ({ ...usable(row, false), scopes: readScopes(row.scopes) })),
      keyId: row.key_id,
    },
    expiresAt: row.expires_at,
  }),
};

const byClient: AdmissionQuery<AdmittedClient | Suspended> = {
  name: 'client',
  sql: byClientSql,
  parameters: ['organization', 'server', 'client', 'token'],
  read: (row) =>
    unlessSuspended(row, () => ({ ...usable(row, false), scopes: readScopes(row.scopes) })),
};

const byGrant: AdmissionQuery<AdmittedClient | Suspended> = {
  name: 'grant',
  sql: byGrantSql,
  parameters: ['organization', 'server', 'client', 'token', 'grant', 'person'],
  read(row) {
    if (!isRole(row.role)) return undefined;
    const most = roleScopes(row.role);
    return unlessSuspended(row, () => {
      const found = usable(row, true);
      const scopes = readScopes(row.scopes).filter((scope) => most.includes(scope));
      return { ...found, scopes: limitedScopes(scopes, found.toolCaller.selections) };
    });
  },
};

const byPerson: AdmissionQuery<AdmittedClient | Suspended> = {
  name: 'person',
  sql: byPersonSql,
  parameters: ['organization', 'server', 'person'],
  read(row) {
    if (!isRole(row.role)) return undefined;
    const scopes = roleScopes(row.role);
    return unlessSuspended(row, () => ({ ...usable(row, true), scopes }));
  },
};

const byMember: AdmissionQuery<AdmittedClient | Suspended> = {
  name: 'member',
  sql: byMemberSql,
  parameters: ['organization', 'server', 'collection'],
  read: (row) => unlessSuspended(row, () => ({ ...usable(row, false), scopes: allScopes })),
};

const byMemberPerson: AdmissionQuery<AdmittedClient | Suspended> = {
  name: 'member-person',
  sql: byMemberPersonSql,
  parameters: ['organization', 'server', 'collection', 'person'],
  read(row) {
    if (!isRole(row.role)) return undefined;
    const scopes = roleScopes(row.role);
    return unlessSuspended(row, () => ({ ...usable(row, true), scopes }));
  },
};

/** All queries of admission. */
export const admissionQueries = [
  byKey,
  byClient,
  byGrant,
  byPerson,
  byMember,
  byMemberPerson,
] as const;

/** An `AdmissionStore` that reads its rows with `read`. */
export function admissionStore(read: ReadKept, changeToken: () => string): AdmissionStore {
  return {
    byKey({ organization, server: name, keyHash, now, asOf }) {
      const found = read(byKey, { organization, server: name, hash: keyHash }, asOf);
      return whenReady(found, (row) =>
        row && (row.expiresAt === null || row.expiresAt > now) ? row.key : undefined,
      );
    },

    byClient({ organization, server: name, clientId, tokenId, grant, asOf }) {
      const values = { organization, server: name, client: clientId, token: tokenId ?? null };
      if (!grant) return read(byClient, values, asOf);
      return read(byGrant, { ...values, grant: grant.id, person: grant.userId }, asOf);
    },

    byPerson: ({ organization, server: name, userId }) =>
      read(byPerson, { organization, server: name, person: userId }),

    byMember({ organization, server: name, collectionId: collection, userId, asOf }) {
      const values = { organization, server: name, collection };
      if (userId === undefined) return read(byMember, values, asOf);
      return read(byMemberPerson, { ...values, person: userId }, asOf);
    },

    changeToken,
  };
}

/**
 * Returns admissions as the transaction sees them. Every caller keeps their access until the transaction ends, because taking access
 * away changes the row that is locked here, and SQLite has one writer at a time. Call this last in a transaction, as the other
 * transactions lock this row last.
 */
export async function lockAdmissions(tx: Db): Promise<AdmissionStore> {
  if (isPostgres(tx)) await sql`select epoch from admission_epoch for update`.execute(tx);
  return currentAdmissions(tx);
}

/** Admissions as the database has them now, without a cache: for pages and administration. */
export function currentAdmissions(db: Db): AdmissionStore {
  const read: ReadKept = async (query, values) => {
    const { rows } = await withValues(query, values).execute(db);
    const [row] = rows;
    return row && query.read(row);
  };
  return admissionStore(read, () => '');
}
