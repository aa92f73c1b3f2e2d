import type { FastifyReply } from 'fastify';
import { notFound } from '#admin/refusal';
import { accessKindChoices, accessRead, accessSet, type AccessView } from '#admin/upstream-access';
import { connectionEnd, connectionList } from '#admin/upstream-connections';
import { headerList } from '#admin/upstream-headers';
import { findServer } from '#db/servers';
import { credentialsUrl } from '#model/upstream-kinds';
import { errorSummary, formActions, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { type Frame, layout, pageHeading, statusNotice, tabNavigation } from '#web/layout';
import { queryChoice, queryText, seeOther } from '#web/page-request';
import { copyButton, factList, relativeTime } from '#web/tables';
import { titleText } from '#web/titles';
import { connectionTestSection, testSaved } from './connection-test.ts';
import { formFor } from './forms.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';
import { questionRoutes, type Question } from './questions.ts';
import { serverCrumbs, serverOf, serverPath, serverTabs } from './server-tabs.ts';
import { headerForm, headerRoutes, headersSection, type Shown } from './upstream-headers.ts';

const toManage = 'server.manage';
const accessForm = formFor(accessSet, ['kind', 'clientId', 'clientSecret']);
/** The fields for a server behind an agent, to which Latchkey sends no token. */
const agentFields = ['kind', 'keyLabel', 'keyHelpUrl', 'keyHeader', 'keyTemplate', 'keyTool'];
const agentKinds: ReadonlySet<string> = new Set(['none', 'person_key']);
const notices: Readonly<Record<string, string>> = {
  created: 'Server created. Now choose how Latchkey authenticates to its MCP server.',
  saved: 'Saved.',
  disconnected: 'Account disconnected.',
  header: 'Header saved.',
  restored: 'The previous value is in use again.',
  forgotten: 'Previous value deleted.',
  removed: 'Header removed.',
};
/** The notices after which the connection is tested. */
const tested: ReadonlySet<string> = new Set(['saved', 'header', 'restored', 'removed']);

/**
 * `/servers/{server}/upstream`: how calls authenticate to the MCP server, and which people have connected an account.
 */
export function upstreamAccessRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/upstream', toManage, showAccess);
  guard.post('/servers/:server/upstream', toManage, saveAccess);
  headerRoutes(guard, sendAccess);
  questionRoutes(
    guard,
    '/servers/:server/upstream/connections/:userId/end',
    toManage,
    disconnection,
  );
}

/** Sends the page with the entered values, or else the stored ones. */
async function sendAccess(
  visit: DashboardVisit,
  request: DashboardRequest,
  reply: FastifyReply,
  shown: Shown,
  options: DashboardOptions,
): Promise<FastifyReply> {
  const data = await accessData(visit, request, shown, options);
  const at = {
    crumbs: serverCrumbs(visit, { text: 'Upstream authentication' }),
    status: shown.status,
  };
  return sendDashboardPage(reply, visit, upstreamAccessPage, data, at);
}

/** The values in the form, the discovered settings, and the people who have connected an account. */
async function accessData(
  visit: DashboardVisit,
  request: DashboardRequest,
  { entered, header, errors }: Shown,
  { base, ports }: DashboardOptions,
) {
  const { organization } = visit;
  const server = await serverOf(visit, request);
  const { name } = server;
  const at = { server: name };
  const access = await visit.perform(accessRead, at);
  const { items } = await visit.perform(connectionList, at);
  const headers = await visit.perform(headerList, at);
  const home = serverPath(organization, name);
  const url = credentialsUrl(server.upstream);
  const done = queryText(request, 'done') ?? '';
  const isTested = tested.has(done) || queryText(request, 'test') === 'now';
  const replaced = headers.items.find((one) => one.name === queryText(request, 'header'))?.name;
  return {
    heading: visit.server,
    tabs: serverTabs(visit, name, 'upstream'),
    notice: queryChoice(request, 'done', notices),
    test: isTested && errors.length === 0 ? await testSaved(visit, home, ports) : undefined,
    action: `${home}/upstream`,
    cancel: home,
    entered: entered ?? accessForm.filled(access),
    hasSecret: access.hasClientSecret,
    // To register at the authorization server.
    redirectUri: base + access.redirectPath,
    // Where the upstream finds the public key for assertions.
    jwksUri: `${base}/.well-known/jwks.json`,
    facts: factsOf(access),
    connections: items.map(({ userId, email, kind, failedAt, provedAt, lastUsedAt }) => ({
      email,
      state:
        kind === 'key'
          ? keyWords({ failedAt, provedAt })
          : failedAt === null
            ? 'Connected'
            : 'Sign-in required',
      lastUsedAt,
      isKey: kind === 'key',
      href: `${home}/upstream/connections/${encodeURIComponent(userId)}/end`,
    })),
    takesCredentials: url !== undefined,
    isKeyedAgent: await isKeyedAgent(visit, name, ports),
    headers: {
      ...headers,
      origin: url === undefined ? '' : new URL(url).origin,
      action: `${home}/upstream/headers`,
      entered: header?.entered ?? headerForm.filled({ name: replaced }),
      typedRevision: header?.revision ?? String(headers.revision),
      isReplacing: replaced !== undefined && errors.length === 0,
    },
    now: ports.clock.now(),
    errors,
  };
}

const showAccess: PageHandler = (visit, request, reply, options) =>
  sendAccess(visit, request, reply, { errors: [] }, options);

const saveAccess: FormHandler = async (visit, sent, request, reply, options) => {
  const { organization } = visit;
  const { server = '' } = request.params;
  const refused = await accessForm.submit({ sent, conflict: 'kind' }, (input) => {
    // For a key, an empty optional field removes the stored value.
    const cleared = input['kind'] === 'person_key' ? { keyHelpUrl: '', keyTool: '' } : {};
    return visit.perform(accessSet, { ...cleared, ...input, server });
  });
  if (refused) return sendAccess(visit, request, reply, refused, options);
  return seeOther(reply, `${serverPath(organization, server)}/upstream?done=saved`);
};

const disconnection: Question = {
  async ask(visit, request) {
    const { organization } = visit;
    const { name: server } = await serverOf(visit, request);
    const { items } = await visit.perform(connectionList, { server });
    const one = items.find(({ userId }) => userId === request.params['userId']);
    if (!one) throw notFound('connection');
    if (one.kind === 'key') {
      return {
        heading: `Remove the key of ${one.email}?`,
        consequences: [
          'Their calls to this server fail until they enter a key again.',
          'The key stays valid at the MCP server.',
        ],
        verb: 'Remove key',
        cancel: `${serverPath(organization, server)}/upstream`,
        crumbs: serverCrumbs(visit, { text: 'Remove key' }),
      };
    }
    return {
      heading: `Disconnect the account of ${one.email}?`,
      consequences: [
        'Their calls to this server fail until they connect an account again.',
        'Latchkey revokes the tokens at the authorization server.',
      ],
      verb: 'Disconnect account',
      cancel: `${serverPath(organization, server)}/upstream`,
      crumbs: serverCrumbs(visit, { text: 'Disconnect' }),
    };
  },
  async act({ organization, perform }, { params }) {
    const { server = '', userId = '' } = params;
    await perform(connectionEnd, { server, userId });
    return `${serverPath(organization, server)}/upstream?done=disconnected`;
  },
};

/** The state of a person's key, in words. */
function keyWords({
  failedAt,
  provedAt,
}: {
  readonly failedAt: number | null;
  readonly provedAt: number | null;
}): string {
  if (failedAt !== null) return 'Key refused';
  return provedAt === null ? 'Key not checked yet' : 'Key works';
}

/** Whether a server is behind an agent and can require a key from each person. One that the agent runs as a command gets no headers. */
async function isKeyedAgent(
  { organization }: DashboardVisit,
  name: string,
  { db, upstreamSetup }: DashboardOptions['ports'],
): Promise<boolean> {
  const { upstream } = (await findServer(db, organization, name))?.target ?? {};
  if (upstream?.kind !== 'agent') return false;
  return upstreamSetup.kindAtAgent(upstream.agentId, name) !== 'stdio';
}

function factsOf({ issuer, clientId, resource, scopes }: AccessView) {
  if (issuer === null) return [];
  return [
    { label: 'Authorization server', text: issuer },
    { label: 'Client ID', text: clientId ?? '' },
    { label: 'Resource', text: resource ?? 'None' },
    { label: 'Scopes', text: scopes.join(' ') || 'Chosen by the authorization server' },
  ];
}

type AccessFormData = Awaited<ReturnType<typeof accessData>>;

/** How calls authenticate to the MCP server behind an endpoint. */
function upstreamAccessPage(data: AccessFormData, frame: Frame): Html {
  const { heading, tabs, errors } = data;
  const title =
    errors.length > 0 ? 'Not saved' : `Upstream authentication of ${titleText(heading)}`;
  const lead = 'How Latchkey authenticates to the MCP server behind this endpoint.';
  const notHttp = html`<div class="empty">
<p>Only an HTTP upstream needs authentication. This server has another kind of upstream.</p>
</div>`;
  const behindAgent = html`${accessSection(data, frame)}
${connectionsSection(data)}`;
  const sections = html`${data.test && connectionTestSection(data.test, false, `${data.action}?test=now`)}
${accessSection(data, frame)}
${discoveredSection(data)}
${connectionsSection(data)}
${headersSection(data, frame)}`;
  const content = html`${pageHeading({ heading, lead })}
${tabNavigation(tabs)}
${statusNotice(data.notice)}
${errorSummary(errors)}
${data.takesCredentials ? sections : data.isKeyedAgent ? behindAgent : notHttp}`;
  return layout({ title, width: 'form' }, frame, content);
}

function accessSection(data: AccessFormData, frame: Frame): Html {
  const { action, cancel, entered, hasSecret, redirectUri, jwksUri, errors } = data;
  const here = {
    clientId: { before: redirectUriField(redirectUri) },
    clientSecret: hasSecret
      ? { help: 'A secret is stored, encrypted. Enter another one to replace it.' }
      : {},
    'caller.tells': {
      help: `Each call contains a signed JWT that names the person or the application. The upstream verifies it with the keys at ${jwksUri}.`,
    },
  };
  const forAgent = {
    kind: {
      choices: accessKindChoices.filter(({ value }) => agentKinds.has(value)),
      note: 'The agent sends the key to an HTTP server in its network. Whoever operates the agent can read it.',
    },
  };
  const options = data.takesCredentials ? { here } : { here: forAgent, only: agentFields };
  const fields = html`${accessForm.fields(entered, errors, { focus: false, ...options })}
${formActions('Save', cancel)}`;
  return postForm(frame, { action, novalidate: true }, fields);
}

/** The redirect URI of this server, to be registered at the authorization server of the upstream. */
function redirectUriField(redirectUri: string): Html {
  return html`<div class="field">
<span class="label" id="redirect-label">Redirect URI to register at the authorization server</span>
<p class="copied">
<code aria-labelledby="redirect-label">${redirectUri}</code>${copyButton(redirectUri, 'the redirect URI')}
</p>
</div>
`;
}

function discoveredSection({ facts }: AccessFormData): Html | undefined {
  if (facts.length === 0) return undefined;
  return html`<section class="section" aria-labelledby="found-heading">
<h2 id="found-heading">Current settings</h2>
${factList(facts, 0)}
</section>`;
}

function connectionsSection({ connections, now }: AccessFormData): Html | undefined {
  if (connections.length === 0) return undefined;
  const areKeys = connections.some(({ isKey }) => isKey);
  const heading = areKeys ? 'Keys of people' : 'Connected accounts';
  const help = areKeys
    ? 'Changing the kind of authentication, or the URL to another origin, removes all of them. No one can read them here.'
    : 'Changing the client ID, the authorization server or the kind of authentication disconnects all of them.';
  return html`<section class="section" aria-labelledby="connected-heading">
<h2 id="connected-heading">${heading}</h2>
<p class="help">${help}</p>
<ul class="rows">
${connections.map(
  ({ email, state, isKey, lastUsedAt, href }) =>
    html`<li>
<div>
<span dir="auto">${email}</span>
<p class="help">${state}${isKey && (lastUsedAt === null ? ' · not used yet' : html` · last used ${relativeTime(lastUsedAt, now)}`)}</p>
</div>
<a class="button danger" href="${href}" data-question aria-label="${isKey ? 'Remove the key of' : 'Disconnect'} ${email}">${isKey ? 'Remove' : 'Disconnect'}</a>
</li>`,
)}
</ul>
</section>`;
}
