import type { FastifyReply } from 'fastify';

import {
  clientCreate,
  clientList,
  clientRevoke,
  clientUpdate,
} from '#administration/client-operations';
import { clientSecretList } from '#administration/client-secret-operations';
import { jwksOf } from '#administration/jwks-field';
import { perform } from '#administration/perform';
import type { ShownServer } from '#administration/shown-server';
import { ordinaryScopes, type Scope } from '#credentials/scope';
import { queryText } from '#http/query-text';
import type { Form } from '#oauth/form';
import { assistantConfigurations } from '#pages/assistant-configurations';
import type { FieldError } from '#pages/page';
import { clientFormPage, type TypedClient } from './client-form-page.ts';
import { clientOf } from './client-of.ts';
import { clientPage } from './client-page.ts';
import { secretTable } from './client-secret-table.ts';
import { counted } from './counted.ts';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { listPage } from './list-page.ts';
import { listQuery } from './list-query.ts';
import { livePath } from './live-routes.ts';
import { questionRoutes } from './question-routes.ts';
import { refusedForm } from './refused-form.ts';
import { checkedScopes, scopeOptions, scopeWords } from './scope-options.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath, serverTabs } from './server-tabs.ts';
import { shownOncePage } from './shown-once-page.ts';
import { lines } from './typed-server.ts';

const look = { permission: 'client.read', section: 'servers' } as const;
const manage = { permission: 'client.manage', section: 'servers' } as const;
const shape = {
  states: [
    { value: '', text: 'All' },
    { value: 'active', text: 'In force' },
    { value: 'revoked', text: 'Revoked' },
  ],
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Client id' },
    { text: 'Last used', sort: 'last_used_at' },
    { text: 'Created', sort: 'created_at' },
    { text: 'Actions' },
  ],
  usual: { sort: 'created_at', order: 'desc' },
} as const;
const labels = {
  name: { field: 'name', label: 'The name' },
  scopes: { field: 'scopes', label: 'What it may do' },
  redirectUris: { field: 'redirectUris', label: 'A redirect URI' },
  jwks: { field: 'jwks', label: 'The JWK set' },
};
const notices: Readonly<Record<string, string>> = {
  made: 'The OAuth client is in force.',
  saved: 'Saved. It counts from the next call on.',
  revoked: 'The OAuth client is revoked, and every token that it had.',
  'secret-revoked': 'The secret is revoked and proves nothing any more.',
};

/** `/servers/{server}/clients`, `/new-client`, and one client with what can be done to it. */
export function clientRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { clock } = ports;

  door.get('/servers/:server/clients', look, async (visit, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const { organization, actor } = visit;
    const home = serverPath(organization, server.name);
    const query = listQuery(request, shape);
    const wanted = { ...query.input, organization, server: server.name };
    const { items, total } = await perform(clientList, wanted, actor, ports);
    const create = { text: 'Create OAuth client', href: `${home}/new-client` };
    const action = visit.may('client.manage') ? create : undefined;
    const isWhole = query.input['text'] === undefined && query.input['status'] === undefined;
    const rows = items.map((client) => {
      const path = `${home}/clients/${client.clientId}`;
      const isOver = client.revokedAt !== null;
      const of = client.name;
      const actions = [
        ...(client.authentication === 'secret'
          ? [{ text: 'Rotate', href: `${path}/rotate`, of }]
          : []),
        { text: 'Revoke', href: `${path}/revoke`, of, danger: true },
      ];
      const badges = isOver ? [{ text: 'revoked', tone: 'plain' } as const] : [];
      return {
        id: client.clientId,
        isOver,
        cells: [
          { kind: 'name', text: client.name, href: path, badges },
          { kind: 'id', text: client.clientId },
          { kind: 'time', at: client.lastUsedAt ?? undefined, otherwise: 'never' },
          { kind: 'time', at: client.createdAt, otherwise: '' },
          { kind: 'actions', actions: action && !isOver ? actions : [] },
        ] as const,
      };
    });
    const text = isWhole
      ? 'No OAuth clients yet. An application needs one to sign people in here, or to act for itself.'
      : 'No OAuth client is like that.';
    const data = {
      heading: server.title || server.name,
      lead: '',
      badges: [],
      action,
      tabs: serverTabs(visit, server.name, 'clients'),
      notice: notices[queryText(request, 'done') ?? ''],
      list: query.frame(total),
      isSearchable: !isWhole || items.length > 0,
      table: {
        caption: `OAuth clients of ${server.name}`,
        columns: query.columns,
        rows,
        empty: { text, action: isWhole ? action : undefined },
        now: clock.now(),
      },
      here: request.url,
    };
    const crumbs = serverCrumbs(organization, server.name, { text: 'OAuth clients' });
    const live = livePath(organization, server.name);
    return sendDashboardPage(reply, visit, listPage, data, { crumbs, live });
  });

  const form = (
    visit: DashboardVisit,
    reply: FastifyReply,
    { name: server }: ShownServer,
    shown: {
      clientId?: string;
      typed: TypedClient;
      scopes: readonly Scope[];
      errors: readonly FieldError[];
    },
  ) => {
    const home = serverPath(visit.organization, server);
    const { clientId, typed, errors } = shown;
    const isNew = clientId === undefined;
    const heading = isNew ? 'Create OAuth client' : 'Change the OAuth client';
    const data = {
      isNew,
      heading,
      lead: isNew
        ? `An application uses it to reach ${server}: for the people who let it, or for itself.`
        : 'A scope that you take away counts from the next call on.',
      action: isNew ? `${home}/new-client` : `${home}/clients/${clientId}/settings`,
      cancel: isNew ? `${home}/clients` : `${home}/clients/${clientId}`,
      typed,
      scopes: scopeOptions(shown.scopes),
      errors,
    };
    const crumbs = serverCrumbs(
      visit.organization,
      server,
      { text: 'OAuth clients', href: `${home}/clients` },
      { text: heading },
    );
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, clientFormPage, data, { crumbs, status });
  };

  door.get('/servers/:server/new-client', manage, async (visit, request, reply) => {
    const typed = { name: '', redirectUris: '', proof: 'secret', jwks: '' };
    const server = await serverOf(visit, request, ports);
    return form(visit, reply, server, { typed, scopes: ordinaryScopes, errors: [] });
  });

  door.post('/servers/:server/new-client', manage, async (visit, sent, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const { organization, actor } = visit;
    const { typed, input } = readClient(sent);
    const home = `${serverPath(organization, server.name)}/clients`;
    try {
      const jwks = typed.proof === 'keys' ? { jwks: jwksOf(typed.jwks) } : {};
      const wanted = { ...input, ...jwks, organization, server: server.name };
      const made = await perform(clientCreate, wanted, actor, ports);
      const { clientId, clientSecret, scopes } = made;
      if (clientSecret === null) {
        const next = `${home}/${clientId}?done=made`;
        return await reply.header('Cache-Control', 'no-store').redirect(next, 303);
      }
      const url = base + server.endpoint;
      const credential = { kind: 'client', clientId, clientSecret, scopes } as const;
      const data = {
        heading: `OAuth client ${made.name}`,
        next: `It may ask for tokens of ${server.name} from now on.`,
        secret: {
          label: 'Client secret',
          secret: clientSecret,
          beside: [
            { label: 'Client id', text: clientId },
            { label: 'Endpoint', text: url },
          ],
          configurations: assistantConfigurations({ name: server.name, url, credential }),
          done: `${home}/${clientId}?done=made`,
        },
      };
      const crumbs = serverCrumbs(organization, server.name, { text: 'OAuth client' });
      return sendDashboardPage(reply, visit, shownOncePage, data, { crumbs });
    } catch (refusal) {
      const errors = refusedForm(refusal, labelsOf(input.redirectUris));
      return form(visit, reply, server, { typed, scopes: input.scopes, errors });
    }
  });

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
        { label: 'Acts for', text: people === 0 ? 'nobody' : counted(people, 'person', 'people') },
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

  const settings = '/servers/:server/clients/:clientId/settings';
  door.get(settings, manage, async (visit, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const { clientId, name, scopes, redirectUris } = await clientOf(visit, request, ports);
    const typed = { name, redirectUris: redirectUris.join('\n'), proof: '', jwks: '' };
    return form(visit, reply, server, { clientId, typed, scopes, errors: [] });
  });

  door.post(settings, manage, async (visit, sent, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const { clientId } = await clientOf(visit, request, ports);
    const { organization, actor } = visit;
    const { typed, input } = readClient(sent);
    try {
      await perform(clientUpdate, { ...input, organization, clientId }, actor, ports);
    } catch (refusal) {
      const errors = refusedForm(refusal, labelsOf(input.redirectUris));
      return form(visit, reply, server, { clientId, typed, scopes: input.scopes, errors });
    }
    const next = `${serverPath(organization, server.name)}/clients/${clientId}?done=saved`;
    return reply.header('Cache-Control', 'no-store').redirect(next, 303);
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

/** A list's refusal names the entry that it is about. */
function labelsOf(redirectUris: readonly string[]) {
  const entries = redirectUris.map((uri, place) => {
    const label = `The redirect URI ${uri}`;
    return [`redirectUris.${place}`, { field: 'redirectUris', label }] as const;
  });
  return { ...labels, ...Object.fromEntries(entries) };
}

function readClient(sent: Form) {
  const typed: TypedClient = {
    name: sent.get('name') ?? '',
    redirectUris: sent.get('redirectUris') ?? '',
    proof: sent.get('proof') ?? 'secret',
    jwks: sent.get('jwks') ?? '',
  };
  const { name } = typed;
  const input = { name, scopes: checkedScopes(sent), redirectUris: lines(typed.redirectUris) };
  return { typed, input };
}
