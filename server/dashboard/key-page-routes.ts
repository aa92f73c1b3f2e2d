import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { keyOf } from './key-of.ts';
import { keyPage } from './key-page.ts';
import { keyBadges } from './key-rows.ts';
import { livePath } from './live-routes.ts';
import { scopeWords } from './scope-options.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath } from './server-tabs.ts';

/** `/servers/{server}/keys/{key}`. */
export function keyPageRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const { clock } = ports;
  const look = { permission: 'key.read', section: 'servers' } as const;

  door.get('/servers/:server/keys/:keyId', look, async (visit, request, reply) => {
    const { organization } = visit;
    const { name: server } = await serverOf(visit, request, ports);
    const key = await keyOf(visit, request, ports);
    const list = `${serverPath(organization, server)}/keys`;
    const time = (at: number | null, otherwise: string) =>
      ({ kind: 'time', at: at ?? undefined, otherwise }) as const;
    const isManaged = key.status === 'active' && visit.may('key.manage');
    const data = {
      heading: key.name,
      badges: keyBadges(key),
      keyId: key.id,
      facts: [
        { label: 'Key', cell: { kind: 'hint', text: key.hint } as const },
        { label: 'Last used', cell: time(key.lastUsedAt, 'never') },
        { label: 'Created', cell: time(key.createdAt, '') },
        { label: 'Expires', cell: time(key.expiresAt, 'never') },
        ...(key.revokedAt === null ? [] : [{ label: 'Revoked', cell: time(key.revokedAt, '') }]),
      ],
      scopes: key.scopes.map(scopeWords),
      manage: isManaged
        ? { rotate: `${list}/${key.id}/rotate`, revoke: `${list}/${key.id}/revoke` }
        : undefined,
      here: request.url,
      now: clock.now(),
    };
    const keys = { text: 'API keys', href: list };
    const crumbs = serverCrumbs(organization, server, keys, { text: key.name });
    const live = livePath(organization, server);
    return sendDashboardPage(reply, visit, keyPage, data, { crumbs, live });
  });
}
