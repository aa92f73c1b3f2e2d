import { perform } from '#administration/perform';
import { serverRead } from '#administration/server-operations';
import {
  ownConnectionRead,
  type ShownOwnConnection,
} from '#administration/upstream-connection-operations';
import { queryText } from '#http/query-text';
import { assistantConfigurations } from '#pages/assistant-configurations';
import type { DashboardDoor } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { disabledBadges } from './disabled-badges.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverPage } from './server-page.ts';
import { serverPath, serverTabs } from './server-tabs.ts';
import { upstreamWords } from './upstream-words.ts';

const needs = { permission: 'server.read', section: 'servers' } as const;
const notices: Readonly<Record<string, string>> = {
  created: 'The server is created. Connect an assistant to it below.',
  enabled: 'The server serves again.',
};

/** `/servers/{server}`. */
export function serverRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/servers/:server', needs, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const { server: name = '' } = request.params;
    const server = await perform(serverRead, { organization, server: name }, actor, ports);
    const own = await perform(ownConnectionRead, { organization, server: name }, actor, ports);
    const home = serverPath(organization, name);
    const endpoint = base + server.endpoint;
    const credential = { kind: 'person' } as const;
    const proxy = await ports.proxy();
    const data = {
      heading: server.title || server.name,
      badges: disabledBadges(server),
      description: server.description,
      tabs: serverTabs(visit, name, 'connect'),
      notice: notices[queryText(request, 'done') ?? ''],
      isDisabled: server.disabledAt !== null,
      settings: may('server.manage') ? `${home}/settings` : undefined,
      endpoint,
      facts: [
        { label: 'Calls go to', text: upstreamWords(server) },
        ...(own.isNeeded ? [ownAccountFact(own, `${home}/account`)] : []),
        { label: 'OAuth clients in force', text: String(server.activeClients) },
        { label: 'API keys in force', text: String(server.activeKeys) },
        { label: 'People’s consents in force', text: String(server.activeGrants) },
        { label: 'Hidden tools', text: server.hiddenTools.join(', ') || 'none' },
        { label: 'Created', cell: { kind: 'time', at: server.createdAt, otherwise: '' } as const },
      ],
      configurations: assistantConfigurations({ name, url: endpoint, credential }, proxy),
      proxy,
      makes: [
        {
          permission: 'client.manage',
          text: 'Create OAuth client',
          help: 'An OAuth client: for an application that signs people in, or acts for itself.',
          href: `${home}/new-client`,
        } as const,
        {
          permission: 'key.manage',
          text: 'Generate API key',
          help: 'An API key: for an assistant or a script that can send one header.',
          href: `${home}/new-key`,
        } as const,
      ].filter(({ permission }) => may(permission)),
      now: clock.now(),
    };
    return sendDashboardPage(reply, visit, serverPage, data, { crumbs: [{ text: name }] });
  });
}

/** Whether the person's own account is connected, and where to see to it. */
function ownAccountFact({ state }: ShownOwnConnection, href: string) {
  const text = state === 'connected' ? 'connected' : 'connect it';
  return { label: 'Your account there', cell: { kind: 'name', text, href, badges: [] } as const };
}
