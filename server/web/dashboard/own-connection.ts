import { AdministrationRefusal } from '#admin/refusal';
import { accessOf, ownConnectionEnd, ownConnectionRead } from '#admin/upstream-connections';
import type { EpochSeconds } from '#model/clock';
import { findOrganization } from '#db/organizations';
import type { UpstreamAccess } from '#db/upstream-access';
import { findUpstreamConnection, replaceUpstreamConnection } from '#db/upstream-connections';
import { randomBase62 } from '#secrets/secrets';
import { tokensPurpose, UpstreamAccessError } from '#upstreams/credentials/access';
import {
  accountPath,
  beginConnecting,
  finishConnecting,
} from '#upstreams/credentials/authorization-client';
import { tokensText } from '#upstreams/credentials/tokens';
import { postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  type Badge,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { redirectPage } from '#web/messages';
import { queryChoice, seeOther, sendPage } from '#web/page-request';
import { type Fact, factList, timeCell } from '#web/tables';
import { type Titled, titleText, titleWithName } from '#web/titles';
import { sendExclusion } from './closed-server.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { isOwnKey, noteConnection, ownKeyRoutes, sendOwnKey } from './own-key.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { questionRoutes, type Question } from './questions.ts';
import { serverCrumbs, serverOf, serverPath, serverTabs } from './server-tabs.ts';
import { ownCallsFact } from './servers.ts';

const needs = 'server.read';
const notices: Readonly<Record<string, string>> = {
  connected: 'Account connected. Go back to your assistant and try again.',
  disconnected: 'Account disconnected.',
};
const problems: Readonly<Record<string, string>> = {
  denied: 'You did not allow access, so no account was connected.',
  refused: 'The sign-in took too long, was started in another browser, or was refused. Try again.',
  unreachable: 'The authorization server cannot be reached. Try again later.',
  unusable: 'The authorization server is not set up correctly. Ask an administrator.',
};

/** `/servers/{server}/account`: a person's own account at the upstream, connected by their consent there, or their own key. */
export function ownConnectionRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/account', needs, showAccount);
  guard.post('/servers/:server/account', needs, connectAccount);
  guard.get('/servers/:server/account/callback', needs, finishConnection);
  ownKeyRoutes(guard);
  questionRoutes(guard, '/servers/:server/account/disconnect', needs, disconnection);
}

/** The upstream access to which people connect their accounts, if there is one. @throws {AdministrationRefusal} `not_found`, `forbidden` */
async function accessFor(visit: DashboardVisit, request: DashboardRequest, ports: DashboardPorts) {
  const { name } = await serverOf(visit, request);
  if (visit.server.isClosed) {
    const words = `${name} is restricted to certain groups: ask an administrator to add you to one`;
    throw new AdministrationRefusal('forbidden', words);
  }
  const access = await accessOf(visit.organization, name, ports);
  return access?.kind === 'authorization_code' ? access : undefined;
}

function here({ organization }: DashboardVisit, { params }: DashboardRequest) {
  return accountPath({ organization, name: params['server'] ?? '' });
}

function connectingOf(access: UpstreamAccess, { person }: DashboardVisit) {
  return {
    access,
    userId: person.user.id,
    sessionToken: person.sessionToken,
  };
}

const showAccount: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization, person } = visit;
  const { id, name } = await serverOf(visit, request);
  const own = await visit.perform(ownConnectionRead, { server: name });
  // A person can remove an account or key that they left there, even without access to the server.
  if (visit.server.isClosed && own.state === 'none') {
    return sendExclusion(visit, reply, 'connect', ports);
  }
  if (isOwnKey(own)) return sendOwnKey(visit, request, reply, { own, ports, errors: [] });
  const home = serverPath(organization, name);
  const host = own.issuer === null ? '' : new URL(own.issuer).host;
  const data = {
    heading: visit.server,
    tabs: serverTabs(visit, name, 'connect'),
    notice: queryChoice(request, 'done', notices),
    problem: queryChoice(request, 'problem', problems),
    isNeeded: own.isNeeded,
    state: own.state,
    host,
    email: person.user.email,
    facts: [
      { label: 'Sign in at', text: host },
      { label: 'Requested scopes', text: own.scopes.join(', ') || 'Chosen by that server' },
      { label: 'Used for calls of', text: person.user.email },
      ...(own.createdAt === null ? [] : [{ label: 'Connected', cell: timeCell(own.createdAt) }]),
      ownCallsFact(visit, id),
    ],
    action: `${home}/account`,
    disconnect: `${home}/account/disconnect`,
    now: ports.clock.now(),
  };
  const crumbs = serverCrumbs(visit, { text: 'Your account' });
  return sendDashboardPage(reply, visit, ownConnectionPage, data, { crumbs });
};

const connectAccount: FormHandler = async (visit, _form, request, reply, { base, ports }) => {
  const access = await accessFor(visit, request, ports);
  const page = here(visit, request);
  if (!access) return reply.redirect(page, 303);
  const { person } = visit;
  const redirectUri = `${base}${page}/callback`;
  const client = ports.authorizationClientOf(access);
  const connecting = connectingOf(access, visit);
  const begun = beginConnecting(connecting, redirectUri, { ...ports, client });
  const there = await begun.catch((error: unknown) => problemOf(error, request));
  if (!(there instanceof URL)) return seeOther(reply, `${page}?problem=${there}`);
  if (await findUpstreamConnection(ports.db, access.id, person.user.id)) {
    // Some authorization servers revoke all grants of a person with one token, so revoke before the new consent.
    await visit.perform(ownConnectionEnd, { server: request.params['server'] ?? '' });
    await ports.cleanUpCredentials();
  }
  const { host } = new URL(access.metadata.issuer);
  return sendPage(reply, redirectPage, { heading: `To ${host}`, path: there.href });
};

const finishConnection: PageHandler = async (visit, request, reply, { base, ports }) => {
  const access = await accessFor(visit, request, ports);
  const page = here(visit, request);
  const back = (query: string) => seeOther(reply, `${page}${query}`);
  if (!access) return back('');
  const { person, organization } = visit;
  const client = ports.authorizationClientOf(access);
  try {
    const callback = new URL(request.url, base);
    const connecting = connectingOf(access, visit);
    const tokens = await finishConnecting(connecting, callback, { ...ports, client });
    const place = await findOrganization(ports.db, organization);
    const of = { targetId: access.targetId, accessId: access.id, userId: person.user.id };
    const kept = await replaceUpstreamConnection(ports.db, {
      ...of,
      id: `upc_${randomBase62(16)}`,
      organizationId: place?.id ?? '',
      sealedTokens: ports.sealing.seal(tokensPurpose(of), tokensText(tokens)),
      createdAt: ports.clock.now(),
    });
    if (!kept) {
      await client.revoke(tokens).catch(() => undefined);
      throw new UpstreamAccessError('refused', 'the access or the membership ended meanwhile');
    }
    await noteConnection('connection.create', 'done', visit, request, ports);
    return back('?done=connected');
  } catch (error) {
    const problem = problemOf(error, request);
    await noteConnection('connection.create', 'refused', visit, request, ports);
    return back(`?problem=${problem}`);
  }
};

const disconnection: Question = {
  async ask(visit, request) {
    const { name } = await serverOf(visit, request);
    const home = serverPath(visit.organization, name);
    const { kind } = await visit.perform(ownConnectionRead, { server: name });
    if (kind === 'key') {
      return {
        heading: `Remove your key for ${titleWithName(visit.server)}?`,
        consequences: [
          'Your calls to this server fail until you enter a key again.',
          'The key stays valid at the MCP server. Revoke it there if nothing else uses it.',
        ],
        verb: 'Remove key',
        cancel: `${home}/account`,
        crumbs: serverCrumbs(visit, { text: 'Remove key' }),
      };
    }
    return {
      heading: `Disconnect your account from ${titleWithName(visit.server)}?`,
      consequences: [
        'Your calls to this server fail until you connect an account again.',
        'Latchkey revokes the tokens at the authorization server.',
      ],
      verb: 'Disconnect account',
      cancel: `${home}/account`,
      crumbs: serverCrumbs(visit, { text: 'Disconnect' }),
    };
  },
  async act({ organization, perform }, { params }) {
    const { server = '' } = params;
    await perform(ownConnectionEnd, { server });
    return `${accountPath({ organization, name: server })}?done=disconnected`;
  },
};

/** The problem that the page explains. Throws any error that is not an `UpstreamAccessError`. */
function problemOf(error: unknown, request: DashboardRequest): string {
  if (!(error instanceof UpstreamAccessError)) throw error;
  request.log.info({ reason: error.message, code: error.code }, 'account not connected');
  return Object.hasOwn(problems, error.code) ? error.code : 'refused';
}

/** The state of the person's upstream account; `action` connects it, `disconnect` leads to the confirmation page. */
interface OwnConnectionData {
  readonly heading: Titled;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  /** The message about a problem at the authorization server. */
  readonly problem: string | undefined;
  readonly isNeeded: boolean;
  readonly state: 'none' | 'connected' | 'ended';
  /** The host that the person is sent to. */
  readonly host: string;
  readonly email: string;
  readonly facts: readonly Fact[];
  readonly action: string;
  readonly disconnect: string;
  readonly now: EpochSeconds;
}

const words = {
  none: {
    badges: [],
    heading: 'Connect your account',
    verb: 'Connect your account',
  },
  connected: {
    badges: [{ text: 'Connected', tone: 'good' }],
    heading: 'Your account is connected',
    verb: 'Connect another account',
  },
  ended: {
    badges: [{ text: 'Sign-in required', tone: 'care' }],
    heading: 'Connect your account again',
    verb: 'Connect again',
  },
} as const satisfies Record<
  OwnConnectionData['state'],
  { badges: readonly Badge[]; heading: string; verb: string }
>;

/** A person's own account at the MCP server behind an endpoint. */
function ownConnectionPage(data: OwnConnectionData, frame: Frame): Html {
  const { heading, tabs, problem, isNeeded, state } = data;
  const lead = 'Your own account at the MCP server behind this endpoint.';
  const content = html`${pageHeading({ heading, lead, badges: words[state].badges })}
${tabNavigation(tabs)}
${statusNotice(data.notice)}
${
  problem &&
  html`<div class="summary" role="alert">
<p><strong>Not connected.</strong></p>
<p>${problem}</p>
</div>`
}
${isNeeded ? connectionSection(data, frame) : html`<div class="empty"><p>This server does not use personal accounts. There is nothing to connect.</p></div>`}`;
  return layout({ title: `Your account at ${titleText(heading)}`, width: 'text' }, frame, content);
}

function connectionSection(data: OwnConnectionData, frame: Frame): Html {
  const { state, host, facts, action, disconnect, now } = data;
  const { heading, verb } = words[state];
  const connect = html`<button class="${state !== 'connected' && 'primary'}">${verb}</button>`;
  const connected = html`<li>Only your own calls to this server use it, including those of applications that act for you.</li>
<li>Connecting another account disconnects this one first.</li>`;
  const before = html`${state === 'ended' && html`<li>${host} no longer accepts your earlier sign-in.</li>`}
<li>You sign in at ${host} and allow access there. Latchkey never sees your password.</li>
<li>Only your own calls to this server then use that account, including those of applications that act for you.</li>
<li>The tokens are stored encrypted, and applications never get them. You can disconnect here at any time.</li>`;
  return html`<section class="group" aria-labelledby="own-heading">
<h2 id="own-heading">${heading}</h2>
<ul class="consequences">
${state === 'connected' ? connected : before}
</ul>
${factList(facts, now)}
<div class="actions">
${postForm(frame, { action }, connect)}
${state !== 'none' && html`<a class="button danger" href="${disconnect}" data-question>Disconnect</a>`}
</div>
</section>`;
}
