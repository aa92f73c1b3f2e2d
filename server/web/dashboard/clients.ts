import type { z } from 'zod';
import { clientSecretList, type clientSecretViewSchema } from '#admin/client-secrets';
import { clientList, clientRead, clientRevoke, type ClientView } from '#admin/clients';
import { notFound } from '#admin/refusal';
import { countClientPeople } from '#db/clients';
import { findSecretCreators } from '#db/client-secrets';
import { html, type Html } from '#web/html';
import { type Badge, type Frame, layout, pageHeading, statusNotice } from '#web/layout';
import { queryChoice } from '#web/page-request';
import { copyable, dataTable, factList, type Table, timeCell } from '#web/tables';
import { titleText } from '#web/titles';
import { selectionWords } from '#web/tool-choice';
import { lastCalls } from './calls.ts';
import { findActorNames } from './actors.ts';
import { sendExclusion } from './closed-server.ts';
import { scopeList, scopeWords } from './scope-words.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { selectedNames } from './known-tools.ts';
import { activeOrRevoked, listQuery, renewedPart, sendListPage } from './lists.ts';
import { livePath } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { counted, questionRoutes, type Question } from './questions.ts';
import { rotationsAmong } from './rotation.ts';
import { isExcluded, serverCrumbs, serverOf, serverPath, serverTabs } from './server-tabs.ts';
import { checkPath } from './tool-tabs.ts';

/** The OAuth clients of a server: listing, showing and revoking them. */
export function clientRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/clients', toRead, showClients);
  guard.get('/servers/:server/clients/:clientId', toRead, showClient);
  questionRoutes(guard, '/servers/:server/clients/:clientId/revoke', toManage, revocation);
}

const toRead = 'client.read';
const shape = {
  states: activeOrRevoked,
  columns: [
    { text: 'Name', sort: 'name' },
    { text: 'Client ID' },
    { text: 'Last used', sort: 'last_used_at' },
    { text: 'Created', sort: 'created_at' },
    { text: 'Actions' },
  ],
  usual: { sort: 'created_at', order: 'desc' },
} as const;
const listNotices: Readonly<Record<string, string>> = {
  revoked: 'OAuth client and all its tokens revoked.',
};

const showClients: PageHandler = async (visit, request, reply, { ports }) => {
  if (isExcluded(visit)) return sendExclusion(visit, reply, 'clients', ports);
  const server = await serverOf(visit, request);
  const { organization } = visit;
  const home = serverPath(organization, server.name);
  const query = listQuery(request, shape);
  const { items, total } = await visit.perform(clientList, { ...query.input, server: server.name });
  const create = { text: 'Create OAuth client', href: `${home}/new-client` };
  const action = visit.may('client.manage') ? create : undefined;
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
    const badges = clientBadges(client);
    return {
      id: client.clientId,
      isOver,
      cells: [
        { kind: 'name', text: client.name, href: path, badges },
        { kind: 'id', text: client.clientId },
        timeCell(client.lastUsedAt, 'Never'),
        timeCell(client.createdAt),
        { kind: 'actions', actions: action && !isOver ? actions : [] },
      ] as const,
    };
  });
  const list = {
    heading: visit.server,
    caption: `OAuth clients of ${server.name}`,
    action,
    tabs: serverTabs(visit, server.name, 'clients'),
    notice: queryChoice(request, 'done', listNotices),
    query,
    rows,
    total,
    none: `No OAuth clients yet. An application needs one to act on behalf of people or on its own behalf.${action ? '' : ' Administrators create them here.'}`,
    noneLikeThat: 'No OAuth clients match.',
    now: ports.clock.now(),
  };
  const crumbs = serverCrumbs(visit, { text: 'OAuth clients' });
  const live = livePath(organization, server.name);
  return sendListPage(reply, visit, list, { crumbs, live });
};

/** The client in the path, if it belongs to the server in the path. @throws {AdministrationRefusal} */
export async function clientOf({ perform }: DashboardVisit, { params }: DashboardRequest) {
  const client = await perform(clientRead, { clientId: params['clientId'] ?? '' });
  if (client.server !== params['server']) throw notFound('client');
  return client;
}

export const toManage = 'client.manage';
const notices: Readonly<Record<string, string>> = {
  made: 'OAuth client created.',
  saved: 'Saved. The change takes effect on the next call.',
  'secret-revoked': 'Client secret revoked. The application can no longer authenticate with it.',
};

/** The badges for a client's state. */
function clientBadges({
  revokedAt,
  suspended,
}: Pick<z.output<typeof clientRead.output>, 'revokedAt' | 'suspended'>): readonly Badge[] {
  if (revokedAt !== null) return [{ text: 'Revoked', tone: 'plain' }];
  return suspended ? [{ text: 'Suspended', tone: 'bad' }] : [];
}

const showClient: PageHandler = async (visit, request, reply, { ports }) => {
  if (isExcluded(visit)) return sendExclusion(visit, reply, 'clients', ports);
  const { organization, server } = visit;
  const data = await clientData(visit, request, ports);
  const href = `${serverPath(organization, server.name)}/clients`;
  const crumbs = serverCrumbs(visit, { text: 'OAuth clients', href }, { text: data.heading });
  const live = livePath(organization, server.name);
  return sendDashboardPage(reply, visit, clientPage, data, { crumbs, live });
};

async function clientData(visit: DashboardVisit, request: DashboardRequest, ports: DashboardPorts) {
  const { organization } = visit;
  const client = await clientOf(visit, request);
  const { clientId, server, name, revokedAt, authentication } = client;
  const path = `${serverPath(organization, server)}/clients/${clientId}`;
  const isOver = revokedAt !== null;
  const may = visit.may('client.manage') && !isOver;
  const people = await countClientPeople(ports.db, clientId, ports.clock.now());
  const bySecret = authentication === 'secret';
  const secrets = await visit.perform(clientSecretList, { clientId });
  const creators = await findSecretCreators(ports.db, clientId);
  const nameOf = await findActorNames(ports.db, creators.values());
  const creatorOf = (id: string) => {
    const creator = creators.get(id);
    return creator === undefined ? '' : nameOf(creator);
  };
  return {
    heading: name,
    badges: clientBadges(client),
    notice: queryChoice(request, 'done', notices),
    clientId,
    facts: [
      {
        label: 'Authentication',
        text: proofWords(client),
      },
      { label: 'Acts on behalf of', text: actsFor(people, client.redirectUris) },
      { label: 'Tools', text: selectionWords(client.tools) },
      {
        label: 'Last used',
        cell: timeCell(client.lastUsedAt, 'Never'),
      },
      { label: 'Created', cell: timeCell(client.createdAt) },
    ],
    scopes: client.scopes.map(scopeWords),
    names: selectedNames(client.tools),
    check: visit.may('people.read') ? checkPath(organization, server, clientId) : undefined,
    redirectUris: client.redirectUris,
    secrets: bySecret
      ? secretTable(secrets.items, { path, may, now: ports.clock.now(), creatorOf })
      : undefined,
    manage: may
      ? {
          change: `${path}/settings`,
          rotate: bySecret ? `${path}/rotate` : undefined,
          revoke: `${path}/revoke`,
        }
      : undefined,
    calls: await lastCalls(
      visit,
      { credential: clientId },
      { kind: 'client', subject: clientId },
      ports,
    ),
    here: request.url,
    now: ports.clock.now(),
  };
}

type ClientPageData = Awaited<ReturnType<typeof clientData>>;

const revocation: Question = {
  async ask(visit, request, { ports }) {
    const { clientId, name, server } = await clientOf(visit, request);
    const people = await countClientPeople(ports.db, clientId, ports.clock.now());
    const home = `${serverPath(visit.organization, server)}/clients`;
    return {
      heading: `Revoke OAuth client “${name}”?`,
      consequences: [
        `The client loses access to ${titleText(visit.server)}, and all its tokens stop working immediately.`,
        people === 0
          ? 'No person uses it.'
          : `${counted(people, 'person uses', 'people use')} it; ${people === 1 ? 'that person loses' : 'they lose'} access immediately.`,
        'This cannot be undone. If the application still needs access, create a new client.',
      ],
      verb: 'Revoke client',
      cancel: `${home}/${clientId}`,
      crumbs: serverCrumbs(
        visit,
        { text: 'OAuth clients', href: home },
        { text: name, href: `${home}/${clientId}` },
        { text: 'Revoke' },
      ),
    };
  },
  async act(visit, request) {
    const { clientId, server } = await clientOf(visit, request);
    const { organization } = visit;
    await visit.perform(clientRevoke, { clientId });
    return `${serverPath(organization, server)}/clients?done=revoked`;
  },
};

/** How a client authenticates. */
export function proofWords({
  authentication,
  trustedIssuer,
  trustedSubject,
}: Pick<ClientView, 'authentication' | 'trustedIssuer' | 'trustedSubject'>): string {
  switch (authentication) {
    case 'secret':
      return 'Client secret';
    case 'keys':
      return 'Private key (private_key_jwt)';
    case 'workload':
      return `Workload ${trustedSubject} of ${trustedIssuer}`;
  }
}

/** For how many people a client acts, in words. A client that asks no one for consent acts only for itself. */
export function actsFor(people: number, redirectUris: readonly string[]): string {
  if (people > 0) return counted(people, 'person', 'people');
  return redirectUris.length === 0 ? 'Itself' : 'No one yet';
}

/** An OAuth client: its scopes, redirect URIs and secrets. */
function clientPage(data: ClientPageData, frame: Frame): Html {
  const { heading, badges, clientId, facts, scopes, redirectUris, secrets, manage } = data;
  const action = manage?.rotate ? { text: 'Rotate secret', href: manage.rotate } : undefined;
  const live = html`${factList(facts, data.now)}
${
  secrets &&
  html`<h2>Secrets</h2>
${dataTable(secrets)}`
}`;
  const content = html`${pageHeading({ heading, badges, action })}
${statusNotice(data.notice)}
${copyable(clientId, 'the client ID')}
${renewedPart(data.here, live)}
<section class="section" aria-labelledby="scopes-heading">
<h2 id="scopes-heading">Scopes</h2>
${scopeList(scopes)}
${data.names}
${data.check !== undefined && html`<p><a href="${data.check}">Check which tools this client can use</a></p>`}
<h2>Redirect URIs</h2>
${
  redirectUris.length === 0
    ? html`<p class="help">None. The client acts on its own behalf and never asks people for consent.</p>`
    : html`<ul class="rows">
${redirectUris.map((uri) => html`<li><code>${uri}</code></li>`)}
</ul>`
}
${manage && html`<div class="actions"><a class="button" href="${manage.change}">Change</a><a class="button danger" href="${manage.revoke}" data-question>Revoke</a></div>`}
</section>
${data.calls}`;
  return layout({ title: heading, width: 'table' }, frame, content);
}

export type ClientSecretView = z.output<typeof clientSecretViewSchema>;

export function isActive(
  { expiresAt, revokedAt }: Pick<ClientSecretView, 'expiresAt' | 'revokedAt'>,
  now: number,
): boolean {
  return revokedAt === null && (expiresAt === null || expiresAt > now);
}

/** The secrets of a client as a table, the newest first. `path` is the client's page. */
function secretTable(
  secrets: readonly ClientSecretView[],
  {
    path,
    may,
    now,
    creatorOf,
  }: { path: string; may: boolean; now: number; creatorOf: (id: string) => string },
): Table {
  const active = secrets.filter((secret) => isActive(secret, now));
  const rotationOf = rotationsAmong('secret', active);
  return {
    caption: 'Client secrets',
    columns: ['Secret', 'Last used', 'Created', 'Created by', 'Expires', 'Actions'],
    rows: secrets.map((secret) => {
      const { id, hint, expiresAt, revokedAt } = secret;
      const isOver = !isActive(secret, now);
      const revoke = {
        text: 'Revoke',
        href: `${path}/secrets/${id}/revoke`,
        of: hint,
        danger: true,
      };
      const word = revokedAt === null ? 'Expired' : 'Revoked';
      const rotation = rotationOf(secret);
      const over = isOver ? [{ text: word, tone: 'plain' } as const] : [];
      const badges = rotation ? [rotation.badge] : over;
      return {
        id,
        isOver,
        cells: [
          { kind: 'name', text: hint, badges, note: rotation?.words },
          timeCell(secret.lastUsedAt, 'Never'),
          timeCell(secret.createdAt),
          { kind: 'text', text: creatorOf(id) },
          timeCell(expiresAt, 'Never'),
          // The last secret can only be revoked together with the client.
          { kind: 'actions', actions: may && !isOver && active.length > 1 ? [revoke] : [] },
        ],
      };
    }),
    empty: { text: 'No client secrets yet.' },
    now,
  };
}
