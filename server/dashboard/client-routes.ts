import { clientRevoke } from '#administration/client-operations';
import { clientSecretList } from '#administration/client-secret-operations';
import { perform } from '#administration/perform';
import { queryText } from '#http/query-text';
import { clientOf } from './client-of.ts';
import { clientPage } from './client-page.ts';
import { secretTable } from './client-secret-table.ts';
import { counted } from './counted.ts';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { livePath } from './live-routes.ts';
import { questionRoutes } from './question-routes.ts';
import { scopeWords } from './scope-options.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverPath } from './server-tabs.ts';

const look = { permission: 'client.read', section: 'servers' } as const;
const manage = { permission: 'client.manage', section: 'servers' } as const;
const notices: Readonly<Record<string, string>> = {
  made: 'The OAuth client is in force.',
  saved: 'Saved. It counts from the next call on.',
  'secret-revoked': 'The secret is revoked and proves nothing any more.',
};

/** One OAuth client at `/servers/{server}/clients/{id}`, and revoking it. */
export function clientRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/servers/:server/clients/:clientId', look, async (visit, request, reply) => {
    const { organization, actor } = visit;
    const client = await clientOf(visit, request, ports);
    const { clientId, server, name, revokedAt, authentication } = client;
    const path = `${serverPath(organization, server)}/clients/${clientId}`;
    const isOver = revokedAt !== null;
    const may = visit.may('client.manage') && !isOver;
    const people = await ports.clientUse.people(clientId, clock.now());
    const bySecret = authentication === 'secret';
    const secrets = await perform(clientSecretList, { organization, clientId }, actor, ports);
    const data = {
      heading: name,
      badges: isOver ? [{ text: 'revoked', tone: 'plain' } as const] : [],
      notice: notices[queryText(request, 'done') ?? ''],
      clientId,
      facts: [
        { label: 'Proves itself by', text: bySecret ? 'a client secret' : 'keys of its own' },
        { label: 'Acts for', text: actsFor(people, client.redirectUris) },
        {
          label: 'Last used',
          cell: { kind: 'time', at: client.lastUsedAt ?? undefined, otherwise: 'never' } as const,
        },
        { label: 'Created', cell: { kind: 'time', at: client.createdAt, otherwise: '' } as const },
      ],
      scopes: client.scopes.map(scopeWords),
      redirectUris: client.redirectUris,
      secrets: bySecret ? secretTable(secrets.items, { path, may, now: clock.now() }) : undefined,
      manage: may
        ? {
            change: `${path}/settings`,
            rotate: bySecret ? `${path}/rotate` : undefined,
            revoke: `${path}/revoke`,
          }
        : undefined,
      here: request.url,
      now: clock.now(),
    };
    const clients = { text: 'OAuth clients', href: `${serverPath(organization, server)}/clients` };
    const crumbs = serverCrumbs(organization, server, clients, { text: name });
    const live = livePath(organization, server);
    return sendDashboardPage(reply, visit, clientPage, data, { crumbs, live });
  });

  questionRoutes(door, '/servers/:server/clients/:clientId/revoke', manage, {
    async ask(visit, request) {
      const { clientId, name, server } = await clientOf(visit, request, ports);
      const people = await ports.clientUse.people(clientId, clock.now());
      const home = `${serverPath(visit.organization, server)}/clients`;
      return {
        heading: `Revoke the OAuth client “${name}”?`,
        consequences: [
          `It opens ${server} no more, and every token that it has counts no more, from this moment on.`,
          people === 0
            ? 'It acts for nobody at this moment.'
            : `${counted(people, 'person uses', 'people use')} it; ${people === 1 ? 'that person loses' : 'they lose'} access now.`,
          'There is no way back. An application that still needs access gets a new client.',
        ],
        verb: 'Revoke the client',
        cancel: `${home}/${clientId}`,
        crumbs: serverCrumbs(
          visit.organization,
          server,
          { text: 'OAuth clients', href: home },
          { text: name, href: `${home}/${clientId}` },
          { text: 'Revoke' },
        ),
      };
    },
    async act(visit, request) {
      const { clientId, server } = await clientOf(visit, request, ports);
      const { organization, actor } = visit;
      await perform(clientRevoke, { organization, clientId }, actor, ports);
      return `${serverPath(organization, server)}/clients?done=revoked`;
    },
  });
}

/** Whom a client acts for now; one that never asks anybody has itself alone. */
export function actsFor(people: number, redirectUris: readonly string[]): string {
  if (people > 0) return counted(people, 'person', 'people');
  return redirectUris.length === 0 ? 'itself' : 'nobody yet';
}
