import { startSession } from '#server/accounts/sessions';
import { insertAgent } from '#server/db/agents';
import { insertAuditEvent } from '#server/db/audit';
import { insertClient } from '#server/db/clients';
import { insertGroup, insertGroupMember } from '#server/db/groups';
import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import type { CallTally } from '#server/model/call-counts';
import { recordCalls } from '#server/db/rollups';
import { insertServer } from '#server/db/servers';
import { createKey } from '#server/admin/create-credentials';
import { hashSecret, mintSecret, secretHint } from '#server/secrets/secrets';
import { openStores } from '#server/app/stores';
import { cookieName } from '#server/web/page-request';

/** How much a large organization has. */
export const amounts = {
  servers: 1000,
  keys: 10_000,
  clients: 5000,
  agents: 500,
  people: 2000,
  groups: 100,
  auditEvents: 100_000,
} as const;

const organizationId = 'org_bench';
const scopes = ['mcp:tools:read', 'mcp:tools:execute'] as const;
const busyServers = 50;
const hours = 24;
const daySeconds = 86_400;
const actions = ['key.create', 'key.revoke', 'client.create', 'sign-in', 'consent.allow'];

/** The cookie for the pages, and the names and ids in their paths. */
export interface DashboardData {
  readonly cookie: string;
  readonly server: string;
  readonly clientId: string;
  readonly keyId: string;
  readonly agent: string;
  readonly userId: string;
  readonly groupId: string;
}

/** Fills a new database in `dataDir` through the stores, and signs in an owner of the organization. */
export async function fillDashboard(dataDir: string, base: string): Promise<DashboardData> {
  const stores = await openStores(dataDir);
  // Nothing here need survive a crash, and a commit for each of so many rows would take minutes.
  stores.connection.exec('pragma synchronous = off');
  const now = Math.floor(Date.now() / 1000);
  const ago = (seconds: number) => ({ now: () => now - seconds });
  await insertOrganization(stores.db, { id: organizationId, name: 'bench', createdAt: now });
  let keyId = '';
  for (let n = 0; n < amounts.agents; n += 1) {
    const agent = { id: `agent_${n}`, organizationId, name: `agent-${n}`, createdAt: now - n };
    await insertAgent(stores.db, agent);
    const owner = { type: 'agent', agentId: agent.id } as const;
    const key = { name: agent.name, owner, scopes: [], expiresAt: undefined };
    await createKey(key, { ...stores, clock: ago(n) });
  }
  for (let n = 0; n < amounts.servers; n += 1) {
    const upstream = { kind: 'demo' } as const;
    const server = { id: `srv_${n}`, organizationId, name: `server-${n}`, createdAt: now - n };
    await insertServer(stores.db, { ...server, targetId: `target_${n}`, upstream });
  }
  for (let n = 0; n < amounts.keys; n += 1) {
    // Every other one belongs to the first server, so that one server's list is long as well.
    const serverId = `srv_${n % 2 === 0 ? 0 : n % amounts.servers}`;
    const owner = { type: 'server', serverId } as const;
    const key = { name: `key ${n}`, owner, scopes, expiresAt: undefined };
    const made = await createKey(key, { ...stores, clock: ago(n * 3600) });
    keyId ||= made.id;
  }
  for (let n = 0; n < amounts.clients; n += 1) {
    const secret = mintSecret('secret_');
    await insertClient(stores.db, {
      id: `client_${String(n).padStart(24, '0')}`,
      name: `client ${n}`,
      serverId: `srv_${n % 2 === 0 ? 0 : n % amounts.servers}`,
      scopes,
      redirectUris: ['http://127.0.0.1/callback'],
      jwks: undefined,
      secretHash: hashSecret(secret),
      secretHint: secretHint(secret),
      createdAt: now - n * 600,
    });
  }
  for (let n = 0; n < amounts.people; n += 1) {
    const user = { id: `user_${n}`, email: `person${n}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId, role: n === 0 ? 'owner' : 'member' });
  }
  for (let n = 0; n < amounts.groups; n += 1) {
    const group = { id: `group_${n}`, organizationId, name: `group ${n}`, createdAt: now };
    await insertGroup(stores.db, group);
    for (let m = 0; m < amounts.people; m += amounts.groups / 5) {
      await insertGroupMember(stores.db, organizationId, group.id, `user_${m}`);
    }
  }
  for (let n = 0; n < amounts.auditEvents; n += 1) {
    await insertAuditEvent(stores.db, {
      at: now - amounts.auditEvents * 30 + n * 30,
      actor: `user:user_${n % 50}`,
      organization: 'bench',
      action: actions[n % actions.length] ?? '',
      target: `key:key_${n % 1000}`,
      address: '192.0.2.7',
      requestId: `request-${n}`,
      outcome: n % 20 === 0 ? 'refused' : 'done',
    });
  }
  await recordCalls(stores.db, calls(now, keyId));
  const visit = { address: '127.0.0.1', userAgent: 'bench', requestId: 'bench' };
  const who = { userId: 'user_0', factors: 1 } as const;
  const { sessionToken } = await startSession(who, visit, { ...stores, clock: ago(0) });
  await stores.close();
  return {
    cookie: `${cookieName('latchkey', base)}=${sessionToken}`,
    server: 'server-0',
    clientId: `client_${'0'.padStart(24, '0')}`,
    keyId,
    agent: 'agent-0',
    userId: 'user_1',
    groupId: 'group_1',
  };
}

/** A day of calls of fifty servers, each with a key and three tools. */
function calls(now: number, keyId: string): CallTally[] {
  const tallies: CallTally[] = [];
  const counts = { calls: 7, toolErrors: 1, refused: 0, upstreamErrors: 0 };
  for (let hour = 0; hour < hours; hour += 1) {
    const at = now - (now % 60) - (hour * daySeconds) / hours;
    for (let server = 0; server < busyServers; server += 1) {
      const serverId = `srv_${server}`;
      const targetId = `target_${server}`;
      const subjects = [
        { kind: 'server', subject: serverId },
        { kind: 'key', subject: keyId },
        { kind: 'tool', subject: 'search' },
        { kind: 'tool', subject: 'query' },
        { kind: 'tool', subject: 'export' },
      ] as const;
      for (const subject of subjects) {
        for (const bucket of [10, 14, 20]) {
          tallies.push({ at, serverId, targetId, bucket, ...subject, ...counts });
        }
      }
    }
  }
  return tallies;
}
