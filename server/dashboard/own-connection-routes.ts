import { AdministrationRefusal } from '#administration/administration-refusal';
import { perform } from '#administration/perform';
import {
  accessOf,
  ownConnectionEnd,
  ownConnectionRead,
} from '#administration/upstream-connection-operations';
import { randomBase62 } from '#credentials/secret-format';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import { sendPage } from '#http/send-page';
import { onwardPage } from '#pages/onward-page';
import { beginConnecting, finishConnecting } from '#upstream-access/connect-account';
import type { UpstreamAccess } from '#upstream-access/upstream-access';
import { UpstreamAccessError } from '#upstream-access/upstream-access-error';
import { tokensPurpose } from '#upstream-access/upstream-connection';
import { tokensText } from '#upstream-access/upstream-tokens';
import { accountPath } from '#upstream-access/account-path';
import type { DashboardDoor, DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { ownConnectionPage } from './own-connection-page.ts';
import { questionRoutes } from './question-routes.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverOf } from './server-of.ts';
import { serverPath, serverTabs } from './server-tabs.ts';

const needs = { permission: 'server.read', section: 'servers' } as const;
const notices: Readonly<Record<string, string>> = {
  connected: 'Your account is connected. Go back to your assistant and try again.',
  disconnected: 'Your account is disconnected.',
};
const problems: Readonly<Record<string, string>> = {
  denied: 'You did not consent there, so nothing was connected.',
  refused:
    'The answer could not be used: it was late, was not meant for this browser, or was turned down. Try again.',
  unreachable: 'The authorization server cannot be reached now. Try again in a while.',
  unusable: 'The authorization server cannot be used as it is set up. Tell an administrator.',
};

/** `/servers/{server}/account`: a person's own account at the upstream, connected by their consent there. */
export function ownConnectionRoutes(door: DashboardDoor, { base, ports }: DashboardOptions): void {
  const { authorizationClientOf, challenges, clock, upstreamConnections, sealing, tellEnds } =
    ports;

  /** The access that people connect to. @throws {AdministrationRefusal} `not_found`, `forbidden` */
  const accessFor = async (visit: DashboardVisit, request: DashboardRequest) => {
    const { name } = await serverOf(visit, request, ports);
    const { organization, person } = visit;
    if (!(await ports.serverGroups.mayUse(person.user.id, `${organization}/${name}`))) {
      const words = `${name} is for people of certain groups: ask an administrator to add you to one`;
      throw new AdministrationRefusal('forbidden', words);
    }
    const access = await accessOf(organization, name, ports);
    return access?.kind === 'authorization_code' ? access : undefined;
  };
  const here = ({ organization }: DashboardVisit, { params }: DashboardRequest) =>
    accountPath({ organization, name: params['server'] ?? '' });
  const connectingOf = (access: UpstreamAccess, { person }: DashboardVisit) => ({
    access,
    userId: person.user.id,
    sessionToken: person.sessionToken,
  });
  const note = (
    { organization, actor, person }: DashboardVisit,
    { params }: DashboardRequest,
    outcome: 'done' | 'refused',
  ) => {
    const happened = {
      actor: `user:${person.user.id}`,
      organization,
      action: 'connection.create',
      target: `server:${organization}/${params['server'] ?? ''}`,
      address: actor.address,
      requestId: actor.requestId,
    };
    // What a browser can be made to ask without end is counted, not listed.
    if (outcome === 'refused') return ports.refusals.note(happened);
    return ports.audit.append({ ...happened, at: clock.now(), outcome });
  };

  door.get('/servers/:server/account', needs, async (visit, request, reply) => {
    const { organization, actor, person } = visit;
    const { name, title } = await serverOf(visit, request, ports);
    const own = await perform(ownConnectionRead, { organization, server: name }, actor, ports);
    const home = serverPath(organization, name);
    const host = own.issuer === null ? '' : new URL(own.issuer).host;
    const data = {
      heading: title || name,
      tabs: serverTabs(visit, name, 'connect'),
      notice: notices[queryText(request, 'done') ?? ''],
      problem: problems[queryText(request, 'problem') ?? ''],
      isNeeded: own.isNeeded,
      state: own.state,
      host,
      email: person.user.email,
      facts: [
        { label: 'Consent is given at', text: host },
        { label: 'What is asked for', text: own.scopes.join(', ') || 'chosen there' },
        { label: 'For you here', text: person.user.email },
        ...(own.createdAt === null
          ? []
          : [
              {
                label: 'Connected',
                cell: { kind: 'time', at: own.createdAt, otherwise: '' } as const,
              },
            ]),
      ],
      action: `${home}/account`,
      disconnect: `${home}/account/disconnect`,
      now: clock.now(),
    };
    const crumbs = serverCrumbs(organization, name, { text: 'Your account' });
    return sendDashboardPage(reply, visit, ownConnectionPage, data, { crumbs });
  });

  door.post('/servers/:server/account', needs, async (visit, _form, request, reply) => {
    const access = await accessFor(visit, request);
    const page = here(visit, request);
    if (!access) return reply.redirect(page, 303);
    const { organization, person, actor } = visit;
    if (await upstreamConnections.of(access.id, person.user.id)) {
      // Some servers end all that a person ever consented to with one token: so before the new consent, not behind it.
      const at = { organization, server: request.params['server'] ?? '' };
      await perform(ownConnectionEnd, at, actor, ports);
      await tellEnds();
    }
    const redirectUri = `${base}${page}/callback`;
    const client = authorizationClientOf(access);
    const { href } = await beginConnecting(connectingOf(access, visit), redirectUri, {
      client,
      sealing,
      clock,
    });
    const { host } = new URL(access.metadata.issuer);
    return sendPage(reply, onwardPage, { heading: `To ${host}`, path: href });
  });

  door.get('/servers/:server/account/callback', needs, async (visit, request, reply) => {
    const access = await accessFor(visit, request);
    const page = here(visit, request);
    const back = (query: string) => seeOther(reply, `${page}${query}`);
    if (!access) return back('');
    const { person, organization } = visit;
    const client = authorizationClientOf(access);
    try {
      const callback = new URL(request.url, base);
      const connecting = connectingOf(access, visit);
      const tokens = await finishConnecting(connecting, callback, {
        client,
        challenges,
        sealing,
        clock,
      });
      const place = await ports.organizations.byName(organization);
      const of = { serverId: access.serverId, accessId: access.id, userId: person.user.id };
      const kept = await upstreamConnections.put({
        ...of,
        id: `upc_${randomBase62(16)}`,
        organizationId: place?.id ?? '',
        sealedTokens: sealing.seal(tokensPurpose(of), tokensText(tokens)),
        createdAt: clock.now(),
      });
      if (!kept) {
        await client.revoke(tokens).catch(() => undefined);
        throw new UpstreamAccessError('refused', 'the access or the membership ended meanwhile');
      }
      await note(visit, request, 'done');
      return back('?done=connected');
    } catch (error) {
      if (!(error instanceof UpstreamAccessError)) throw error;
      request.log.info({ reason: error.message, code: error.code }, 'account not connected');
      await note(visit, request, 'refused');
      const problem = Object.hasOwn(problems, error.code) ? error.code : 'refused';
      return back(`?problem=${problem}`);
    }
  });

  questionRoutes(door, '/servers/:server/account/disconnect', needs, {
    async ask(visit, request) {
      const { name } = await serverOf(visit, request, ports);
      const home = serverPath(visit.organization, name);
      return {
        heading: `Disconnect your account from ${name}?`,
        consequences: [
          'Your calls to this server get nothing until you connect an account again.',
          'The authorization server is told that the tokens are not used any more.',
        ],
        verb: 'Disconnect your account',
        cancel: `${home}/account`,
        crumbs: serverCrumbs(visit.organization, name, { text: 'Disconnect' }),
      };
    },
    async act({ organization, actor }, { params }) {
      const { server = '' } = params;
      await perform(ownConnectionEnd, { organization, server }, actor, ports);
      return `${accountPath({ organization, name: server })}?done=disconnected`;
    },
  });
}
