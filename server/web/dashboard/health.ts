import type { ServerHealth } from '#upstreams/health';
import type { AgentPresence } from '#upstreams/tunnel/connected-agent';
import type { Badge } from '#web/layout';
import type { Cell } from '#web/tables';
import type { DashboardPorts } from './ports.ts';

const serverBadges: Readonly<Record<ServerHealth['status'], Badge>> = {
  connected: { text: 'Available', tone: 'good' },
  'sign-in-required': { text: 'Sign-in required', tone: 'care' },
  'waiting-for-agent': { text: 'Waiting for agent…', tone: 'care' },
  offline: { text: 'Offline', tone: 'bad' },
  error: { text: 'Error', tone: 'bad' },
  disabled: { text: 'Disabled', tone: 'plain' },
  unknown: { text: 'Not checked yet', tone: 'plain' },
};

/** The status of a server in a word or two. */
export function serverBadge({ status }: ServerHealth): Badge {
  return serverBadges[status];
}

export async function healthOfAll(
  servers: readonly { readonly id: string }[],
  { serverHealth }: Pick<DashboardPorts, 'serverHealth'>,
): Promise<ReadonlyMap<string, ServerHealth>> {
  const found = await Promise.all(
    servers.map(async ({ id }) => [id, await serverHealth(id)] as const),
  );
  return new Map(found.flatMap(([id, health]) => (health ? [[id, health] as const] : [])));
}

/** A cell with the status of a server. Only people who manage it see the reason, which may name internal addresses. */
export function healthCell(health: ServerHealth | undefined, mayManage: boolean): Cell {
  if (!health) return { kind: 'text', text: '' };
  const reason = mayManage ? health.reason : undefined;
  return { kind: 'status', status: serverBadge(health), reason };
}

/** In place of the status, for people who cannot use the server. */
export const noAccessCell: Cell = {
  kind: 'status',
  status: { text: 'No access', tone: 'plain' },
  reason: undefined,
};

/** The status of an agent in a word or two. */
export function agentBadge(
  agent: {
    readonly lastUsedAt: number | null;
    readonly revokedAt: number | null;
    readonly suspended: boolean;
  },
  { isOnline }: Pick<AgentPresence, 'isOnline'>,
): Badge {
  if (agent.revokedAt !== null) return { text: 'Revoked', tone: 'plain' };
  if (agent.suspended) return { text: 'Suspended', tone: 'bad' };
  if (isOnline) return { text: 'Connected', tone: 'good' };
  return agent.lastUsedAt === null
    ? { text: 'Waiting for agent…', tone: 'care' }
    : { text: 'Offline', tone: 'bad' };
}
