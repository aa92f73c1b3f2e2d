import type { FastifyReply } from 'fastify';

import { perform } from '#administration/perform';
import type { ShownAccess } from '#administration/shown-access';
import { accessRead, accessSet } from '#administration/upstream-access-operations';
import { isConflict, notFound } from '#administration/administration-refusal';
import {
  headerForgetPrevious,
  headerList,
  headerRemove,
  headerRestore,
  headerSet,
} from '#administration/upstream-header-operations';
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

const headerPath = '/servers/:server/upstream/headers/:header';
const needs = { permission: 'server.manage', section: 'servers' } as const;
const labels = {
  kind: { field: 'kind', label: 'How it is asked' },
  issuer: { field: 'issuer', label: 'The authorization server' },
  clientId: { field: 'clientId', label: 'The client id' },
  clientSecret: { field: 'clientSecret', label: 'The client secret' },
  scopes: { field: 'scopes', label: 'A scope' },
} as const;
const headerLabels = {
  name: { field: 'headerName', label: 'The name' },
  value: { field: 'headerValue', label: 'The value' },
} as const;
const stale = {
  field: '',
  message:
    'Somebody else saved this server meanwhile, and nothing was changed. Look at the headers below, then type the value again.',
};
const notices: Readonly<Record<string, string>> = {
  saved: 'Saved. It counts from the next call on.',
  disconnected: 'The account is disconnected.',
  header: 'The header is saved. It is sent from the next call on.',
  restored: 'The previous value is sent again, from the next call on.',
  forgotten: 'The previous value is forgotten.',
  removed: 'The header is removed. It is sent no more.',
};

/** What was typed or stands, and what is said about it. */
interface Shown {
  readonly typed?: TypedAccess;
  readonly header?: { readonly name: string; readonly revision?: string };
  readonly errors: readonly FieldError[];
  /** 422 for errors, unless given. */
  readonly status?: number;
}

/** `/servers/{server}/upstream`: what the MCP server behind an endpoint wants, and whose accounts are connected. */
export function upstreamAccessRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const show = async (
    visit: DashboardVisit,
    request: DashboardRequest,
    reply: FastifyReply,
    { typed, header, errors, status = errors.length > 0 ? 422 : 200 }: Shown,
  ) => {
    const { organization, actor } = visit;
    const server = await serverOf(visit, request, ports);
    const { name, title } = server;
    const at = { organization, server: name };
    const access = await perform(accessRead, at, actor, ports);
    const { items } = await perform(connectionList, at, actor, ports);
    const headers = await perform(headerList, at, actor, ports);
    const home = serverPath(organization, name);
    const { upstream } = server;
    const replaced = headers.items.find((one) => one.name === queryText(request, 'header'))?.name;
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
      isHttp: upstream.kind === 'http',
      headers: {
        ...headers,
        origin: upstream.kind === 'http' ? new URL(upstream.url).origin : '',
        action: `${home}/upstream/headers`,
        typed: header?.name ?? replaced ?? '',
        typedRevision: header?.revision ?? String(headers.revision),
        isReplacing: replaced !== undefined && errors.length === 0,
      },
      now: ports.clock.now(),
      errors,
    };
    const crumbs = serverCrumbs(organization, name, { text: 'Authorization' });
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

  door.post('/servers/:server/upstream/headers', needs, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '' } = request.params;
    const name = (sent.get('headerName') ?? '').trim();
    const revision = sent.get('revision') ?? '';
    try {
      const value = sent.get('headerValue') ?? '';
      const input = { organization, server, name, value, ...revisionIn(revision) };
      await perform(headerSet, input, actor, ports);
    } catch (refusal) {
      const now = await perform(headerList, { organization, server }, actor, ports);
      if (isConflict(refusal) && revision !== String(now.revision)) {
        return show(visit, request, reply, { header: { name }, errors: [stale], status: 409 });
      }
      const errors = refusedForm(refusal, headerLabels, 'headerName');
      return show(visit, request, reply, { header: { name, revision }, errors });
    }
    return seeOther(reply, `${serverPath(organization, server)}/upstream?done=header`);
  });

  door.post(`${headerPath}/restore`, needs, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '', header = '' } = request.params;
    const input = { organization, server, header, ...revisionIn(sent.get('revision') ?? '') };
    try {
      await perform(headerRestore, input, actor, ports);
    } catch (refusal) {
      if (!isConflict(refusal)) throw refusal;
      return show(visit, request, reply, { errors: [stale], status: 409 });
    }
    return seeOther(reply, `${serverPath(organization, server)}/upstream?done=restored`);
  });

  const headerOf = async (visit: DashboardVisit, request: DashboardRequest) => {
    const { organization, actor } = visit;
    const { name: server } = await serverOf(visit, request, ports);
    const { items } = await perform(headerList, { organization, server }, actor, ports);
    const header = items.find(({ name }) => name === request.params['header']);
    if (!header) throw notFound('header');
    return { header, server, cancel: `${serverPath(organization, server)}/upstream` };
  };

  questionRoutes(door, `${headerPath}/remove`, needs, {
    async ask(visit, request) {
      const { header, server, cancel } = await headerOf(visit, request);
      return {
        heading: `Remove the header ${header.name}?`,
        consequences: [
          'Requests to the MCP server carry it no more, from the next call on.',
          'Its values are forgotten. This cannot be undone.',
        ],
        verb: 'Remove the header',
        cancel,
        crumbs: serverCrumbs(visit.organization, server, { text: 'Remove' }),
      };
    },
    async act({ organization, actor }, { params }) {
      const { server = '', header = '' } = params;
      await perform(headerRemove, { organization, server, header }, actor, ports);
      return `${serverPath(organization, server)}/upstream?done=removed`;
    },
  });

  questionRoutes(door, `${headerPath}/forget`, needs, {
    async ask(visit, request) {
      const { header, server, cancel } = await headerOf(visit, request);
      if (!header.previous) throw notFound('previous value');
      return {
        heading: `Forget the previous value of ${header.name}?`,
        consequences: [
          'Calls for which the MCP server refuses the new value fail from then on.',
          'This cannot be undone. To send it again, type it again.',
        ],
        verb: 'Forget the previous value',
        cancel,
        crumbs: serverCrumbs(visit.organization, server, { text: 'Forget' }),
      };
    },
    async act({ organization, actor }, { params }) {
      const { server = '', header = '' } = params;
      await perform(headerForgetPrevious, { organization, server, header }, actor, ports);
      return `${serverPath(organization, server)}/upstream?done=forgotten`;
    },
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

/** The revision of the server that a form was filled from. */
function revisionIn(text: string): { revision?: number } {
  return text === '' ? {} : { revision: Number(text) };
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
