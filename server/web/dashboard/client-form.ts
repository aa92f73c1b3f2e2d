import type { FastifyReply } from 'fastify';

import { clientCreate, clientUpdate, jwksOf } from '#admin/clients';
import { perform } from '#admin/operation';
import type { ServerView } from '#admin/servers';
import type { Form } from '#oauth/forms';
import { ordinaryScopes, type Scope } from '#oauth/scopes';
import {
  checkboxes,
  errorOf,
  errorSummary,
  type ExplainedChoice,
  type FieldError,
  formActions,
  postForm,
  radioButtons,
  textArea,
  textField,
} from '#web/forms';
import { html, type Html } from '#web/html';
import { assistantConfigurations } from '#web/instructions';
import { type Frame, layout, pageHeading } from '#web/layout';
import { oneTimeSecretPage } from '#web/one-time-secret';
import { seeOther } from '#web/page-request';
import { clientOf, toManage } from './clients.ts';
import { checkedScopes, refusedForm, scopeOptions } from './forms.ts';
import type { DashboardGuard, DashboardVisit } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';
import { lines } from './server-form.ts';
import { serverCrumbs, serverOf, serverPath } from './servers.ts';

const labels = {
  name: { field: 'name', label: 'The name' },
  scopes: { field: 'scopes', label: 'What it may do' },
  redirectUris: { field: 'redirectUris', label: 'A redirect URI' },
  jwks: { field: 'jwks', label: 'The JWK set' },
};

/** `/servers/{server}/new-client`, and the settings of one client. */
export function clientFormRoutes(guard: DashboardGuard, { base, ports }: DashboardOptions): void {
  const form = (
    visit: DashboardVisit,
    reply: FastifyReply,
    { name: server }: ServerView,
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

  guard.get('/servers/:server/new-client', toManage, async (visit, request, reply) => {
    const typed = { name: '', redirectUris: '', proof: 'secret', jwks: '' };
    const server = await serverOf(visit, request, ports);
    return form(visit, reply, server, { typed, scopes: ordinaryScopes, errors: [] });
  });

  guard.post('/servers/:server/new-client', toManage, async (visit, sent, request, reply) => {
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
      return sendDashboardPage(reply, visit, oneTimeSecretPage, data, { crumbs });
    } catch (refusal) {
      const errors = refusedForm(refusal, labelsOf(input.redirectUris));
      return form(visit, reply, server, { typed, scopes: input.scopes, errors });
    }
  });

  const settings = '/servers/:server/clients/:clientId/settings';
  guard.get(settings, toManage, async (visit, request, reply) => {
    const server = await serverOf(visit, request, ports);
    const { clientId, name, scopes, redirectUris } = await clientOf(visit, request, ports);
    const typed = { name, redirectUris: redirectUris.join('\n'), proof: '', jwks: '' };
    return form(visit, reply, server, { clientId, typed, scopes, errors: [] });
  });

  guard.post(settings, toManage, async (visit, sent, request, reply) => {
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

/** An error about a list names the entry that is wrong. */
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

/** What is entered in the form of an OAuth client. */
interface TypedClient {
  readonly name: string;
  readonly redirectUris: string;
  /** `secret` or `keys`. */
  readonly proof: string;
  readonly jwks: string;
}

/** What was entered, and what is wrong with it; `action` and `cancel` are paths of this server. */
interface ClientFormData {
  readonly isNew: boolean;
  readonly heading: string;
  readonly lead: string;
  readonly action: string;
  readonly cancel: string;
  readonly typed: TypedClient;
  readonly scopes: readonly ExplainedChoice[];
  readonly errors: readonly FieldError[];
}

/** Creates an OAuth client of a server, or changes it. */
function clientFormPage(data: ClientFormData, frame: Frame): Html {
  const { isNew, heading, lead, action, cancel, typed, scopes, errors } = data;
  const title = errors.length > 0 ? 'Not saved yet' : heading;
  const nameField = textField({
    name: 'name',
    label: 'Name',
    value: typed.name,
    error: errorOf(errors, 'name'),
    focus: isNew && errors.length === 0,
    attributes: html`autocomplete="off" maxlength="200"`,
    help: 'People see it when the application asks for their consent.',
  });
  const scopesField = checkboxes({
    name: 'scopes',
    legend: 'The most it may ever do',
    error: errorOf(errors, 'scopes'),
    options: scopes,
  });
  const redirectUrisField = textArea({
    name: 'redirectUris',
    label: 'Redirect URIs',
    value: typed.redirectUris,
    error: errorOf(errors, 'redirectUris'),
    attributes: html`class="code-like" spellcheck="false" autocapitalize="none"`,
    help: 'Where the browser may return to after consent, one a line. For a program on the person’s own computer: http://127.0.0.1/callback, whatever port it listens on. Leave it empty for an application that acts for itself.',
  });
  const fields = html`${nameField} ${scopesField} ${redirectUrisField}
${isNew && proofFields(typed, errors)}
${formActions(isNew ? 'Create OAuth client' : 'Save', cancel)}`;
  const content = html`${pageHeading({ heading, lead })}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, fields)}`;
  return layout({ title, width: 'form' }, frame, content);
}

function proofFields({ proof, jwks }: TypedClient, errors: readonly FieldError[]): Html {
  const choice = radioButtons({
    name: 'proof',
    legend: 'How it proves itself',
    options: [
      {
        value: 'secret',
        text: 'A client secret',
        help: 'Made here and shown once.',
        isChosen: proof !== 'keys',
      },
      {
        value: 'keys',
        text: 'Keys of its own',
        help: 'It signs with a private key that never leaves it (private_key_jwt).',
        isChosen: proof === 'keys',
      },
    ],
  });
  const jwksField = textArea({
    name: 'jwks',
    label: 'Its public keys',
    value: jwks,
    error: errorOf(errors, 'jwks'),
    rows: 6,
    attributes: html`class="code-like" spellcheck="false" autocapitalize="none"`,
    help: 'A JWK set: {"keys":[…]}, public members only.',
  });
  return html`${choice}
<div class="for-keys">${jwksField}</div>`;
}
