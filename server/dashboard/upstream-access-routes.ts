import type { FastifyReply } from 'fastify';

import { notFound } from '#administration/administration-refusal';
import { perform } from '#administration/perform';
import type { ShownAccess } from '#administration/shown-access';
import { accessRead, accessSet } from '#administration/upstream-access-operations';
import { connectionEnd, connectionList } from '#administration/upstream-connection-operations';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import type { Form } from '#oauth/form';
import type { FieldError } from '#pages/page';
import type { DashboardDoor, DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { questionRoutes } from './question-routes.ts';
import { refusedForm } from './refused-form.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath, serverTabs } from './server-tabs.ts';
import { upstreamAccessPage, type TypedAccess } from './upstream-access-page.ts';

const needs = { permission: 'server.manage', section: 'servers' } as const;
const labels = {
  kind: { field: 'kind', label: 'How it is asked' },
  issuer: { field: 'issuer', label: 'The authorization server' },
  clientId: { field: 'clientId', label: 'The client id' },
  clientSecret: { field: 'clientSecret', label: 'The client secret' },
  scopes: { field: 'scopes', label: 'A scope' },
} as const;
const notices: Readonly<Record<string, string>> = {
  saved: 'Saved. It counts from the next call on.',
  disconnected: 'The account is disconnected.',
};

/** `/servers/{server}/upstream`: what the MCP server behind an endpoint wants, and whose accounts are connected. */
export function upstreamAccessRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const show = async (
    visit: DashboardVisit,
    request: DashboardRequest,
    reply: FastifyReply,
    { typed, errors }: { typed?: TypedAccess; errors: readonly FieldError[] },
  ) => {
    const { organization, actor } = visit;
    const server = await serverOf(visit, request, ports);
    const { name, title } = server;
    const at = { organization, server: name };
    const access = await perform(accessRead, at, actor, ports);
    const { items } = await perform(connectionList, at, actor, ports);
    const home = serverPath(organization, name);
    const data = {
      heading: title || name,
      tabs: serverTabs(visit, name, 'upstream'),
      notice: notices[queryText(request, 'done') ?? ''],
      action: `${home}/upstream`,
      cancel: home,
      typed: typed ?? asTyped(access),
      hasSecret: access.hasClientSecret,
      redirectUri: base + access.redirectPath,
      jwksUri: `${base}/.well-known/jwks.json`,
      facts: factsOf(access),
      connections: items.map(({ userId, email, failedAt }) => ({
        email,
        state: failedAt === null ? 'Connected' : 'Ended there: they are asked to connect again',
        href: `${home}/upstream/connections/${encodeURIComponent(userId)}/end`,
      })),
      isHttp: server.upstream.kind === 'http',
      errors,
    };
    const crumbs = serverCrumbs(organization, name, { text: 'Authorization' });
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, upstreamAccessPage, data, { crumbs, status });
  };

  door.get('/servers/:server/upstream', needs, (visit, request, reply) =>
    show(visit, request, reply, { errors: [] }),
  );

  door.post('/servers/:server/upstream', needs, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '' } = request.params;
    const typed = typedAccess(sent);
    try {
      const { kind, issuer, clientId, scopes, omitsResource, tellsCallers } = typed;
      const secret = sent.get('clientSecret') ?? '';
      const words = scopes.split(/\s+/).filter((word) => word !== '');
      const chosen = {
        ...(issuer !== '' && { issuer }),
        clientId,
        ...(secret !== '' && { clientSecret: secret }),
        ...(words.length > 0 && { scopes: words }),
        omitsResource,
      };
      const rest = kind === 'none' ? {} : chosen;
      const input = { organization, server, kind, tellsCallers, ...rest };
      await perform(accessSet, input, actor, ports);
    } catch (refusal) {
      const errors = refusedForm(refusal, labels, 'kind');
      return show(visit, request, reply, { typed, errors });
    }
    const next = `${serverPath(organization, server)}/upstream?done=saved`;
    return seeOther(reply, next);
  });

  questionRoutes(door, '/servers/:server/upstream/connections/:userId/end', needs, {
    async ask(visit, request) {
      const { organization, actor } = visit;
      const { name: server } = await serverOf(visit, request, ports);
      const { items } = await perform(connectionList, { organization, server }, actor, ports);
      const one = items.find(({ userId }) => userId === request.params['userId']);
      if (!one) throw notFound('connection');
      return {
        heading: `Disconnect the account of ${one.email}?`,
        consequences: [
          'Their calls to this server get nothing until they connect an account again.',
          'The authorization server is told that the tokens are not used any more.',
        ],
        verb: 'Disconnect the account',
        cancel: `${serverPath(organization, server)}/upstream`,
        crumbs: serverCrumbs(organization, server, { text: 'Disconnect' }),
      };
    },
    async act({ organization, actor }, { params }) {
      const { server = '', userId = '' } = params;
      await perform(connectionEnd, { organization, server, userId }, actor, ports);
      return `${serverPath(organization, server)}/upstream?done=disconnected`;
    },
  });
}

function asTyped({ issuer, clientId, scopes, ...access }: ShownAccess): TypedAccess {
  const { kind, omitsResource, tellsCallers } = access;
  const words = { issuer: issuer ?? '', clientId: clientId ?? '', scopes: scopes.join(' ') };
  return { kind, ...words, omitsResource, tellsCallers };
}

function typedAccess(form: Form): TypedAccess {
  const text = (name: string) => (form.get(name) ?? '').trim();
  return {
    kind: text('kind'),
    issuer: text('issuer'),
    clientId: text('clientId'),
    scopes: text('scopes'),
    omitsResource: form.get('resource.omits') !== undefined,
    tellsCallers: form.get('caller.tells') !== undefined,
  };
}

function factsOf({ issuer, clientId, resource, scopes }: ShownAccess) {
  if (issuer === null) return [];
  return [
    { label: 'Authorization server', text: issuer },
    { label: 'It knows this server as', text: clientId ?? '' },
    { label: 'It asks for tokens for', text: resource ?? 'no MCP server in particular' },
    { label: 'Scopes', text: scopes.join(' ') || 'as the authorization server chooses' },
  ];
}
