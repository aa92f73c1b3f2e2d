import { randomBytes } from 'node:crypto';
import { systemClock } from '#server/model/clock';
import { insertGroup } from '#server/db/groups';
import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { insertCollection } from '#server/db/collections';
import { insertServer } from '#server/db/servers';
import type { Db } from '#server/db/transaction';
import { createClient, createKey } from '#server/admin/create-credentials';
import { accessTokens } from '#server/oauth/access-tokens';
import { readMasterKey } from '#server/secrets/master-key';
import { readSigningKeys } from '#server/oauth/signing-keys';
import { openPostgres } from '#server/db/postgres/open-postgres';
import { rpc } from '#support/mcp-call';
import type { Installation } from './installation.ts';

/** The ways in which access is taken away. */
const kinds = ['key', 'client', 'token', 'grant', 'membership', 'group', 'server', 'tool'] as const;
type RevocationKind = (typeof kinds)[number];

/** How many of a hundred revocations are of each kind. */
const shares: Readonly<Record<RevocationKind, number>> = {
  key: 30,
  client: 15,
  token: 10,
  grant: 15,
  membership: 10,
  group: 5,
  server: 5,
  tool: 10,
};

/** A request to a path of the installation. */
export interface Shot {
  readonly method: 'POST' | 'DELETE' | 'PATCH' | 'GET';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** A call that is accepted until its access is taken away, and the request that does so. */
export interface Revocable {
  readonly kind: RevocationKind;
  readonly call: Shot;
  readonly revoke: Shot;
  /** Whether the answer to `revoke` has arrived. */
  isRevoked: boolean;
  /** Whether a call was accepted before. */
  wasAccepted: boolean;
}

/** Writes to the database and signs tokens as the nodes do. */
export interface Records extends AsyncDisposable {
  readonly db: Db;
  readonly now: number;
  readonly organizationId: string;
  /** The headers of an owner's requests to the admin API. */
  readonly admin: Readonly<Record<string, string>>;
  /** A client's access token for `server`, or a person's if there is a grant. */
  token(server: string, of: { clientId: string; grant?: { id: string; userId: string } }): string;
}

export const organization = 'acme';
const organizationId = 'org_acme';
/** A group without members. */
const emptyGroup = 'group_empty';
const organizationPath = `/api/admin/organizations/${organization}`;
const json = { 'content-type': 'application/json' };
const scopes = ['mcp:tools:read', 'mcp:tools:execute'] as const;

/** Opens the records of a new installation, and creates the organization with an owner who has a personal token. */
export async function openRecords(installation: Installation): Promise<Records> {
  const db = openPostgres({ connectionString: installation.databaseUrl, max: 4 });
  const clock = systemClock();
  const now = clock.now();
  const masterKey = readMasterKey(installation.masterKeyFile, { mayCreate: false });
  const keys = await readSigningKeys(db, { masterKey, clock });
  const tokens = accessTokens(installation.base, { keys, clock });
  await insertOrganization(db, { id: organizationId, name: organization, createdAt: now });
  const owner = { id: 'user_owner', email: 'owner@example.com', createdAt: now };
  await insertUser(db, owner, { organizationId, role: 'owner' });
  const made = await installation.command(
    'token',
    'create',
    owner.email,
    '--name',
    'nodes',
    '--json',
  );
  const { token: personal } = JSON.parse(made);
  return {
    db,
    now,
    organizationId,
    admin: { ...json, authorization: `Bearer ${personal}` },
    token: (server, { clientId, grant }) =>
      tokens.issue({
        id: randomBytes(16).toString('base64url'),
        subject: grant?.userId ?? clientId,
        clientId,
        ...(grant && { grantId: grant.id }),
        audience: `${installation.base}/mcp/${organization}/${server}`,
        scopes,
        issuedAt: now,
        expiresAt: now + 3600,
      }),
    [Symbol.asyncDispose]: () => db.destroy(),
  };
}

export async function createServer(
  { db, now }: Records,
  name: string,
  upstream: Parameters<typeof insertServer>[1]['upstream'] = { kind: 'demo' },
): Promise<string> {
  const id = `srv_${name}`;
  const targetId = `target_${name}`;
  await insertServer(db, { id, targetId, organizationId, name, upstream, createdAt: now });
  return id;
}

/** Creates a collection of servers. */
export async function createCollection(
  { db, now }: Records,
  name: string,
  members: readonly string[],
): Promise<string> {
  const id = `srv_${name}`;
  await insertCollection(
    db,
    { id, targetId: `target_${name}`, organizationId, name, createdAt: now },
    members.map((member) => ({ id: member, selection: { type: 'all' } as const })),
  );
  return id;
}

export async function createServerKey({ db, now }: Records, serverId: string, name: string) {
  const owner = { type: 'server', serverId } as const;
  const chosen = { name, owner, scopes, expiresAt: undefined };
  return createKey(chosen, { db, clock: { now: () => now } });
}

export async function createServerClient({ db, now }: Records, serverId: string, name: string) {
  const chosen = { name, serverId, scopes, redirectUris: [], jwks: undefined };
  return createClient(chosen, { db, clock: { now: () => now } });
}

const tool = 'echo';
const toolCallBody = rpc('tools/call', { name: tool, arguments: {} });

/**
 * Creates `count` credentials of servers at `url`, mixed as `shares` says. `isCollection` says that callers call collections of those
 * servers instead; access to a server, or to its tools, is taken away at the server.
 */
export async function createRevocables(
  { records, url, isCollection }: { records: Records; url: string; isCollection: boolean },
  count: number,
): Promise<Revocable[]> {
  const setup = { ...records, upstream: { kind: 'http', url } as const, isCollection };
  await createCalled(setup, 'library');
  const group = { id: emptyGroup, organizationId, name: 'empty', createdAt: records.now };
  await insertGroup(records.db, group);
  const order = kinds.flatMap((kind) =>
    Array.from({ length: shares[kind] }, (_, at) => ({ kind, at: (at + 0.5) / shares[kind] })),
  );
  // Each kind is spread evenly over every hundred, so that a short run has all of them.
  const mixed = order.toSorted((one, other) => one.at - other.at).map(({ kind }) => kind);
  const made: Revocable[] = [];
  for (let n = 0; n < count; n += 1) {
    const kind = mixed[n % mixed.length] ?? 'key';
    made.push({ kind, ...(await makers[kind](setup, n)), isRevoked: false, wasAccepted: false });
  }
  return made;
}

type Made = Pick<Revocable, 'call' | 'revoke'>;
type Setup = Records & {
  readonly upstream: { readonly kind: 'http'; readonly url: string };
  readonly isCollection: boolean;
};

/** Creates a server. Returns the name of what callers call: the server, or a collection of it. */
async function createCalled(setup: Setup, name: string): Promise<string> {
  const id = await createServer(setup, name, setup.upstream);
  if (!setup.isCollection) return name;
  const called = calledName(setup, name);
  await createCollection(setup, called, [id]);
  return called;
}

function calledName({ isCollection }: Pick<Setup, 'isCollection'>, name: string): string {
  return isCollection ? `of-${name}` : name;
}

const makers: Record<RevocationKind, (records: Setup, n: number) => Promise<Made>> = {
  async key(records, n) {
    const called = calledName(records, 'library');
    const { id, key } = await createServerKey(records, `srv_${called}`, `key ${n}`);
    return { call: keyCall(called, key), revoke: admin(records, 'DELETE', `/keys/${id}`) };
  },
  async client(records, n) {
    const called = calledName(records, 'library');
    const { id } = await createServerClient(records, `srv_${called}`, `client ${n}`);
    const token = records.token(called, { clientId: id });
    return {
      call: tokenCall(called, token),
      revoke: admin(records, 'DELETE', `/clients/${id}`),
    };
  },
  async token(records, n) {
    const called = calledName(records, 'library');
    const { id, secret } = await createServerClient(records, `srv_${called}`, `client ${n}`);
    const token = records.token(called, { clientId: id });
    const form = new URLSearchParams({ token, client_id: id, client_secret: secret });
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    return {
      call: tokenCall(called, token),
      revoke: { method: 'POST', path: '/api/oauth/revoke', headers, body: form.toString() },
    };
  },
  async grant(records, n) {
    const { call, grantId } = await personCall(records, n);
    return { call, revoke: admin(records, 'DELETE', `/grants/${grantId}`) };
  },
  async membership(records, n) {
    const { call, userId } = await personCall(records, n);
    return { call, revoke: admin(records, 'DELETE', `/people/${userId}`) };
  },
  async group(records, n) {
    const name = `server-${n}`;
    const { call } = await personCall(records, n, await createCalled(records, name));
    const only = { access: 'groups', group_ids: [emptyGroup] };
    return { call, revoke: admin(records, 'PATCH', `/servers/${name}/groups`, only) };
  },
  async server(records, n) {
    const name = `server-${n}`;
    const called = await createCalled(records, name);
    const { key } = await createServerKey(records, `srv_${called}`, 'only');
    return {
      call: keyCall(called, key),
      revoke: admin(records, 'POST', `/servers/${name}/disable`, {}),
    };
  },
  async tool(records, n) {
    const name = `server-${n}`;
    const called = await createCalled(records, name);
    const { key } = await createServerKey(records, `srv_${called}`, 'only');
    const hidden = { hidden_tools: [tool] };
    return {
      call: keyCall(called, key),
      revoke: admin(records, 'PATCH', `/servers/${name}`, hidden),
    };
  },
};

async function personCall(records: Setup, n: number, server = calledName(records, 'library')) {
  const { db, now } = records;
  const userId = `user_${n}`;
  const grantId = `grant_${n}`;
  const user = { id: userId, email: `person${n}@example.com`, createdAt: now };
  await insertUser(db, user, { organizationId, role: 'member' });
  const { id: clientId } = await createServerClient(records, `srv_${server}`, `app ${n}`);
  await db
    .insertInto('oauth_grant')
    .values({
      id: grantId,
      person_id: userId,
      client_id: clientId,
      endpoint_id: `srv_${server}`,
      scopes: JSON.stringify(scopes),
      redirect_host: '127.0.0.1',
      assistant: null,
      authenticated: 0,
      created_at: now,
      expires_at: now + 86_400,
      last_used_at: null,
      revoked_at: null,
    })
    .execute();
  const token = records.token(server, { clientId, grant: { id: grantId, userId } });
  return { call: tokenCall(server, token), userId, grantId };
}

export function keyCall(server: string, key: string, body = toolCallBody): Shot {
  return toolCall(server, { 'x-api-key': key }, body);
}

export function tokenCall(server: string, token: string, body = toolCallBody): Shot {
  return toolCall(server, { authorization: `Bearer ${token}` }, body);
}

function toolCall(
  server: string,
  credential: Readonly<Record<string, string>>,
  body: string,
): Shot {
  const headers = { ...json, accept: 'application/json, text/event-stream', ...credential };
  return { method: 'POST', path: `/mcp/${organization}/${server}`, headers, body };
}

export function admin(
  records: Pick<Records, 'admin'>,
  method: Shot['method'],
  path: string,
  body?: object,
): Shot {
  const { 'content-type': type, ...credential } = records.admin;
  return {
    method,
    path: organizationPath + path,
    headers: { ...credential, ...(body && { 'content-type': type ?? '' }) },
    ...(body && { body: JSON.stringify(body) }),
  };
}
