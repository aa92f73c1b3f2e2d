import { clientList, clientRead, clientRevoke } from '#admin/clients';
import { notFound } from '#admin/refusal';
import { organizationClientCreate, workloadCreate } from '#admin/workloads';
import { dashboardPath } from '#web/layout';
import { oneTimeSecretPage } from '#web/one-time-secret';
import { queryChoice, seeOther } from '#web/page-request';
import { type Table, timeCell } from '#web/tables';
import { proofWords, toManage } from './clients.ts';
import { formRoutes, type FormRoutes } from './form-routes.ts';
import { formFor } from './forms.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { activeOrRevoked, listPage, listQuery } from './lists.ts';
import { sendDashboardPage } from './page.ts';
import { type Question, questionRoutes } from './questions.ts';

/** `/clients`: all OAuth clients of the organization, also those of one server and those of workloads. */
export function organizationClientRoutes(guard: DashboardGuard): void {
  guard.get(home, 'client.read', showClients);
  formRoutes(guard, `${home}/new`, toManage, newClient);
  formRoutes(guard, `${home}/new-workload`, toManage, newWorkload);
  questionRoutes(guard, `${home}/:clientId/revoke`, toManage, revocation);
}

const home = '/clients';
const homeOf = (organization: string) => dashboardPath(organization) + home;
const shape = {
  states: activeOrRevoked,
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Client ID' },
    { text: 'Server' },
    { text: 'Authentication' },
    { text: 'Last used', sort: 'last_used_at' },
    { text: 'Created', sort: 'created_at' },
    { text: 'Actions' },
  ],
  usual: { sort: 'created_at', order: 'desc' },
} as const;
const notices: Readonly<Record<string, string>> = {
  made: 'OAuth client created.',
  revoked: 'OAuth client and all its tokens revoked.',
};
const crumbsTo = (organization: string, text: string) => [
  { text: 'OAuth clients', href: homeOf(organization) },
  { text },
];

const showClients: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization } = visit;
  const path = homeOf(organization);
  const query = listQuery(request, shape);
  const { items, total } = await visit.perform(clientList, query.input);
  const may = visit.may(toManage);
  const table: Table = {
    caption: `OAuth clients of ${organization}`,
    columns: query.columns,
    rows: items.map((client) => {
      const isOver = client.revokedAt !== null;
      const ofServer = `${dashboardPath(organization)}/servers/${client.server}/clients/${client.clientId}`;
      const revoke = {
        text: 'Revoke',
        href: `${path}/${client.clientId}/revoke`,
        of: client.name,
        danger: true,
      };
      return {
        id: client.clientId,
        isOver,
        cells: [
          {
            kind: 'name',
            text: client.name,
            ...(client.server !== '' && { href: ofServer }),
            badges: isOver ? [{ text: 'Revoked', tone: 'plain' }] : [],
          },
          { kind: 'id', text: client.clientId },
          { kind: 'text', text: client.server || 'All' },
          { kind: 'text', text: proofWords(client) },
          timeCell(client.lastUsedAt, 'Never'),
          timeCell(client.createdAt),
          { kind: 'actions', actions: may && !isOver ? [revoke] : [] },
        ],
      };
    }),
    empty: {
      text: 'No OAuth clients yet. An application for which an identity provider vouches, or a job of a CI system, needs one.',
    },
    now: ports.clock.now(),
  };
  const data = {
    heading: 'OAuth clients',
    lead: 'All clients of this organization. Those of one server are on its page, too.',
    action: may ? { text: 'Create OAuth client', href: `${path}/new` } : undefined,
    tabs: may
      ? {
          label: 'OAuth clients',
          entries: [
            { text: 'Clients', href: path, isHere: true },
            { text: 'Add workload', href: `${path}/new-workload`, isHere: false },
          ],
        }
      : undefined,
    notice: queryChoice(request, 'done', notices),
    list: query.frame(total),
    isSearchable: true,
    table,
    here: request.url,
  };
  return sendDashboardPage(reply, visit, listPage, data, { crumbs: [{ text: 'OAuth clients' }] });
};

const newClient: FormRoutes = {
  form: formFor(organizationClientCreate),
  page: ({ organization }) => ({
    heading: 'Create OAuth client',
    lead: 'For an application that an identity provider gives access to servers of this organization for members. It needs one registration at the provider, for all servers. People cannot consent to it.',
    refused: 'Not created yet',
    verb: 'Create OAuth client',
    cancel: homeOf(organization),
    crumbs: crumbsTo(organization, 'Create OAuth client'),
  }),
  async act(visit, entered, _request, reply) {
    const made = await visit.perform(organizationClientCreate, entered);
    const done = `${homeOf(visit.organization)}?done=made`;
    if (made.clientSecret === null) return seeOther(reply, done);
    const data = {
      heading: `OAuth client ${made.name}`,
      next: 'Register the client ID at the identity provider, and let the provider vouch to it under Sign-in.',
      secret: {
        label: 'Client secret',
        secret: made.clientSecret,
        beside: [{ label: 'Client ID', text: made.clientId }],
        done,
      },
    };
    const crumbs = crumbsTo(visit.organization, made.name);
    return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
  },
};

const newWorkload: FormRoutes = {
  form: formFor(workloadCreate),
  page: ({ organization }) => ({
    heading: 'Add workload',
    lead: 'A job of a CI system, a pod or a virtual machine gets access with the tokens of its platform. It needs no secret of this server.',
    refused: 'Not added yet',
    verb: 'Add workload',
    cancel: homeOf(organization),
    crumbs: crumbsTo(organization, 'Add workload'),
  }),
  async act(visit, entered, _request, reply) {
    await visit.perform(workloadCreate, entered);
    return seeOther(reply, `${homeOf(visit.organization)}?done=made`);
  },
};

/** The client that the path names. @throws {AdministrationRefusal} `not_found` */
async function clientOf({ perform }: DashboardVisit, { params }: DashboardRequest) {
  const client = await perform(clientRead, { clientId: params['clientId'] ?? '' });
  if (client.revokedAt !== null) throw notFound('client');
  return client;
}

const revocation: Question = {
  async ask(visit, request) {
    const { name } = await clientOf(visit, request);
    return {
      heading: `Revoke OAuth client “${name}”?`,
      consequences: [
        'All its tokens stop working immediately, also those that act for people.',
        'This cannot be undone. If the application still needs access, create a new client.',
      ],
      verb: 'Revoke client',
      cancel: homeOf(visit.organization),
      crumbs: crumbsTo(visit.organization, name),
    };
  },
  async act(visit, request) {
    const { clientId } = await clientOf(visit, request);
    await visit.perform(clientRevoke, { clientId });
    return `${homeOf(visit.organization)}?done=revoked`;
  },
};
