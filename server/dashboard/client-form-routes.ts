import type { FastifyReply } from 'fastify';

import { clientCreate, clientUpdate } from '#administration/client-operations';
import { jwksOf } from '#administration/jwks-field';
import { perform } from '#administration/perform';
import type { ShownServer } from '#administration/shown-server';
import { ordinaryScopes, type Scope } from '#credentials/scope';
import { seeOther } from '#http/see-other';
import type { Form } from '#oauth/form';
import { assistantConfigurations } from '#pages/assistant-configurations';
import type { FieldError } from '#pages/page';
import { clientFormPage, type TypedClient } from './client-form-page.ts';
import { clientOf } from './client-of.ts';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { refusedForm } from './refused-form.ts';
import { checkedScopes, scopeOptions } from './scope-options.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath } from './server-tabs.ts';
import { shownOncePage } from './shown-once-page.ts';
import { lines } from './typed-server.ts';

const manage = { permission: 'client.manage', section: 'servers' } as const;
const labels = {
  name: { field: 'name', label: 'The name' },
  scopes: { field: 'scopes', label: 'What it may do' },
  redirectUris: { field: 'redirectUris', label: 'A redirect URI' },
  jwks: { field: 'jwks', label: 'The JWK set' },
};

/** `/servers/{server}/new-client`, and the settings of one client. */
export function clientFormRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
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
      const proxy = await ports.proxy();
      const made = await perform(clientCreate, wanted, actor, ports);
      const { clientId, clientSecret, scopes } = made;
      if (clientSecret === null) {
        const next = `${home}/${clientId}?done=made`;
        return await seeOther(reply, next);
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
          configurations: assistantConfigurations({ name: server.name, url, credential }, proxy),
          proxy,
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
    return seeOther(reply, next);
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
