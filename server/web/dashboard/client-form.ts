import { clientCreate, clientUpdate } from '#admin/clients';
import { connectionInstructions } from '#web/instructions';
import { oneTimeSecretPage } from '#web/one-time-secret';
import { seeOther } from '#web/page-request';
import { titleText } from '#web/titles';
import { clientWords } from '#web/tool-choice';
import { clientOf, toManage } from './clients.ts';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import type { DashboardGuard, DashboardVisit } from './guard.ts';
import { choosableTools } from './known-tools.ts';
import { sendDashboardPage } from './page.ts';
import { serverCrumbs, serverOf, serverPath } from './server-tabs.ts';

/** `/servers/{server}/new-client`, and the settings of one client. */
export function clientFormRoutes(guard: DashboardGuard): void {
  formRoutes(guard, '/servers/:server/new-client', toManage, newClient);
  formRoutes(guard, '/servers/:server/clients/:clientId/settings', toManage, clientSettings);
}

function crumbsOf(visit: DashboardVisit, last: string) {
  const href = `${serverPath(visit.organization, visit.server.name)}/clients`;
  return serverCrumbs(visit, { text: 'OAuth clients', href }, { text: last });
}

const newClient: FormRoutes = {
  form: formFor(clientCreate),
  async page(visit, request, { ports }) {
    const { name: server } = await serverOf(visit, request);
    const items = await choosableTools(visit, server, ports);
    const heading = 'Create OAuth client';
    return {
      heading,
      lead: `An application uses an OAuth client to reach ${titleText(visit.server)}, on behalf of people who consent or on its own behalf.`,
      refused: 'Not saved yet',
      verb: heading,
      cancel: `${serverPath(visit.organization, server)}/clients`,
      crumbs: crumbsOf(visit, heading),
      shownFields: { here: { tools: { tools: { items, words: clientWords } } } },
    };
  },
  async act(visit, entered, request, reply, { base, ports }) {
    const server = await serverOf(visit, request);
    const { organization } = visit;
    const proxy = await ports.proxy();
    const made = await visit.perform(clientCreate, { ...entered, server: server.name });
    const { clientId, clientSecret, scopes } = made;
    const done = `${serverPath(organization, server.name)}/clients/${clientId}?done=made`;
    if (clientSecret === null) return seeOther(reply, done);
    const url = base + server.endpoint;
    const credential = { kind: 'client', clientId, clientSecret, scopes } as const;
    const data = {
      heading: `OAuth client ${made.name}`,
      next: `The application can now request tokens for ${titleText(visit.server)}.`,
      secret: {
        label: 'Client secret',
        secret: clientSecret,
        beside: [
          { label: 'Client ID', text: clientId },
          { label: 'Endpoint', text: url },
        ],
        instructions: connectionInstructions(
          { organization, name: server.name, url, credential },
          proxy,
        ),
        done,
      },
    };
    const crumbs = serverCrumbs(visit, { text: 'OAuth client' });
    return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
  },
};

const clientSettings: FormRoutes = {
  form: formFor(clientUpdate),
  async page(visit, request, { ports }) {
    const { name: server } = await serverOf(visit, request);
    const client = await clientOf(visit, request);
    const items = await choosableTools(visit, server, ports);
    const heading = 'Change OAuth client';
    return {
      heading,
      lead: 'Fewer scopes or tools take effect on the next call.',
      refused: 'Not saved yet',
      verb: 'Save',
      cancel: `${serverPath(visit.organization, server)}/clients/${client.clientId}`,
      crumbs: crumbsOf(visit, heading),
      record: client,
      shownFields: { focus: false, here: { tools: { tools: { items, words: clientWords } } } },
    };
  },
  async act(visit, entered, request, reply) {
    const { name: server } = await serverOf(visit, request);
    const { clientId } = await clientOf(visit, request);
    const { organization } = visit;
    await visit.perform(clientUpdate, { ...entered, clientId });
    return seeOther(reply, `${serverPath(organization, server)}/clients/${clientId}?done=saved`);
  },
};
