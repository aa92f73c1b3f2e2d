import type { FastifyReply } from 'fastify';
import { agentList } from '#admin/agents';
import { perform } from '#admin/operation';
import { checkedInput, isConflict } from '#admin/refusal';
import {
  serverCreate,
  serverDelete,
  serverDisable,
  serverEnable,
  serverRead,
  serverUpdate,
} from '#admin/servers';
import type { ServerDependents } from '#db/servers';
import type { FieldError } from '#web/forms';
import { dashboardPath } from '#web/layout';
import { queryChoice, queryText, seeOther } from '#web/page-request';
import { titleWithName } from '#web/titles';
import {
  type ConnectionTest,
  connectionTest,
  privateNetworkRefusal,
  testUrl,
  testSaved,
} from './connection-test.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit } from './guard.ts';
import { queryCache } from './live.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { counted, questionRoutes } from './questions.ts';
import {
  newServer,
  serverAsTyped,
  serverErrors,
  serverFormPage,
  serverInput,
  typedServer,
  type TypedServer,
} from './server-form.ts';
import { serverCrumbs, serverPath, serverTabs } from './servers.ts';

/** Creating a server, changing it, and what else can be done to it. */
export function serverSettingsRoutes(guard: DashboardGuard, options: DashboardOptions): void {
  createRoutes(guard, options);
  changeRoutes(guard, options);
}

const toManage = { permission: 'server.manage', section: 'servers' } as const;

/** `/new-server`. */
function createRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  const agentsFor = activeAgents(ports);
  const form = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    typed: TypedServer,
    {
      errors = [],
      test,
      status = errors.length > 0 ? 422 : 200,
    }: {
      errors?: FieldError[];
      test?: ConnectionTest | undefined;
      status?: number;
    },
  ) => {
    const { organization } = visit;
    const home = dashboardPath(organization);
    const data = {
      isNew: true,
      heading: 'Create server',
      tabs: undefined,
      notice: undefined,
      action: `${home}/new-server`,
      cancel: `${home}/servers`,
      typed,
      agents: await agentsFor(visit),
      newAgent: `${home}/new-agent`,
      errors,
      test,
      isDisabled: false,
      dangers: [],
    };
    const crumbs = [{ text: 'Servers', href: `${home}/servers` }, { text: 'Create server' }];
    return sendDashboardPage(reply, visit, serverFormPage, data, { crumbs, status });
  };

  guard.get('/new-server', toManage, async (visit, request, reply) =>
    form(
      reply,
      visit,
      newServer((name) => queryText(request, name)),
      {},
    ),
  );

  guard.post('/new-server', toManage, async (visit, sent, _request, reply) => {
    const typed = typedServer(sent, true);
    const { organization, actor } = visit;
    try {
      const input = { ...serverInput(typed), organization };
      const { name: wantedName, upstream } = checkedInput(serverCreate.input, input);
      const url = 'url' in upstream ? upstream.url : undefined;
      const found = url === undefined ? undefined : await testUrl(url, ports);
      const test = found && connectionTest(found, { organization, name: wantedName, url });
      if (url !== undefined && ports.upstreamSetup.isForbidden(new URL(url))) {
        const errors = serverErrors(privateNetworkRefusal(), typed, 'name');
        return await form(reply, visit, typed, { errors, test });
      }
      const step = sent.get('step');
      const isFailed = found && !['connected', 'sign-in-required'].includes(found.outcome);
      if (step === 'test' || (isFailed && step !== 'anyway')) {
        return await form(reply, visit, typed, { test, status: step === 'test' ? 200 : 422 });
      }
      const { name, id } = await perform(serverCreate, input, actor, ports);
      if (found) await ports.learnHealth(id, found);
      const page = found?.outcome === 'sign-in-required' ? '/upstream' : '';
      const next = `${serverPath(organization, name)}${page}?done=created`;
      return seeOther(reply, next);
    } catch (refusal) {
      return form(reply, visit, typed, { errors: serverErrors(refusal, typed, 'name') });
    }
  });
}

const notices: Readonly<Record<string, string>> = {
  saved: 'Saved.',
  'without-headers':
    'Saved. The fixed headers of the previous upstream were removed. Enter new ones under Upstream authentication if they are needed.',
};

const stale = {
  field: '',
  message:
    'Another person changed this server while you edited it. Nothing was saved. Save again to overwrite their changes, or reopen the settings to see them.',
};

/** The form values, entered or stored, and messages about them. */
interface Shown {
  readonly typed: TypedServer;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
  readonly test?: ConnectionTest | undefined;
  /** Default 200. */
  readonly status?: number;
}

/** `/servers/{server}/settings`, and `/disable`, `/enable`, `/delete`. */
function changeRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  const agentsFor = activeAgents(ports);
  const read = ({ organization, actor }: DashboardVisit, { params }: DashboardRequest) =>
    perform(serverRead, { organization, server: params['server'] ?? '' }, actor, ports);

  const form = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    server: Awaited<ReturnType<typeof read>>,
    { status = 200, test, ...shown }: Shown,
  ) => {
    const { organization } = visit;
    const { name, disabledAt } = server;
    const home = serverPath(organization, name);
    const isDisabled = disabledAt !== null;
    const data = {
      ...shown,
      isNew: false,
      heading: visit.server,
      tabs: serverTabs(visit, name, 'settings'),
      action: `${home}/settings`,
      cancel: home,
      agents: await agentsFor(visit),
      newAgent: `${dashboardPath(organization)}/new-agent`,
      test,
      isDisabled,
      dangers: [
        isDisabled
          ? {
              text: 'Enable',
              help: 'Accept calls again, with the same clients and keys.',
              href: `${home}/enable`,
              isHarmless: true,
            }
          : {
              text: 'Disable',
              help: 'Refuse all calls until the server is enabled again.',
              href: `${home}/disable`,
              isHarmless: false,
            },
        {
          text: 'Delete',
          help: 'Delete the server with its clients and keys. This cannot be undone.',
          href: `${home}/delete`,
          isHarmless: false,
        },
      ],
    };
    const crumbs = serverCrumbs(visit, { text: 'Settings' });
    return sendDashboardPage(reply, visit, serverFormPage, data, { crumbs, status });
  };

  guard.get('/servers/:server/settings', toManage, async (visit, request, reply) => {
    const server = await read(visit, request);
    const notice = queryChoice(request, 'done', notices);
    const home = serverPath(visit.organization, server.name);
    const test = notice === undefined ? undefined : await testSaved(visit, home, ports);
    return form(reply, visit, server, { typed: serverAsTyped(server), errors: [], notice, test });
  });

  guard.post('/servers/:server/settings', toManage, async (visit, sent, request, reply) => {
    const server = await read(visit, request);
    const { organization, actor } = visit;
    const typed = typedServer(sent, false);
    let done = 'saved';
    try {
      const change = { ...serverInput(typed), organization, server: server.name };
      const { removedHeaders } = await perform(serverUpdate, change, actor, ports);
      if (removedHeaders.length > 0) done = 'without-headers';
    } catch (refusal) {
      const now = await read(visit, request);
      const revision = String(now.revision);
      const isStale = isConflict(refusal) && typed.revision !== revision;
      // Overwriting another change requires that the page has reported it.
      const shown = isStale
        ? { typed: { ...typed, revision }, errors: [stale], status: 409 }
        : { typed, errors: serverErrors(refusal, typed, ''), status: 422 };
      return form(reply, visit, now, { ...shown, notice: undefined });
    }
    const next = `${serverPath(organization, server.name)}/settings?done=${done}`;
    return seeOther(reply, next);
  });

  questionRoutes(guard, '/servers/:server/disable', toManage, {
    async ask(visit, request) {
      const { name, activeClients, activeKeys, activeGrants } = await read(visit, request);
      const home = serverPath(visit.organization, name);
      return {
        heading: `Disable the server ${titleWithName(visit.server)}?`,
        consequences: [
          ...lostWith({ activeClients, activeKeys, activeGrants }),
          'Calls in progress end. Everything works again when you enable the server.',
        ],
        verb: 'Disable server',
        cancel: `${home}/settings`,
        crumbs: serverCrumbs(visit, { text: 'Disable' }),
      };
    },
    async act({ organization, actor }, { params }) {
      const { server = '' } = params;
      await perform(serverDisable, { organization, server }, actor, ports);
      return `${serverPath(organization, server)}?done=disabled`;
    },
  });

  questionRoutes(guard, '/servers/:server/enable', toManage, {
    async ask(visit, request) {
      const { name } = await read(visit, request);
      return {
        heading: `Enable the server ${titleWithName(visit.server)}?`,
        consequences: ['Its active clients, keys and consents work again immediately.'],
        verb: 'Enable server',
        isHarmless: true,
        cancel: `${serverPath(visit.organization, name)}/settings`,
        crumbs: serverCrumbs(visit, { text: 'Enable' }),
      };
    },
    async act({ organization, actor }, { params }) {
      const { server = '' } = params;
      await perform(serverEnable, { organization, server }, actor, ports);
      return `${serverPath(organization, server)}?done=enabled`;
    },
  });

  questionRoutes(guard, '/servers/:server/delete', toManage, {
    async ask(visit, request) {
      const { name, activeClients, activeKeys, activeGrants } = await read(visit, request);
      return {
        heading: `Delete the server ${titleWithName(visit.server)}?`,
        consequences: [
          ...lostWith({ activeClients, activeKeys, activeGrants }),
          'This cannot be undone. The audit log keeps its entries.',
        ],
        verb: 'Delete server',
        typed: { label: `Type ${name} to confirm`, expected: name, error: undefined },
        cancel: `${serverPath(visit.organization, name)}/settings`,
        crumbs: serverCrumbs(visit, { text: 'Delete' }),
      };
    },
    async act({ organization, actor }, { params }) {
      await perform(serverDelete, { organization, server: params['server'] ?? '' }, actor, ports);
      return `${dashboardPath(organization)}/servers?done=deleted`;
    },
  });
}

const aPage = 200;
/** A longer list would be of no use. */
const mostPages = 10;

/** The names of the agents that a server can be bound to, sorted. */
function activeAgents(ports: DashboardPorts) {
  const cached = queryCache(ports.changes);

  return (visit: DashboardVisit): Promise<readonly string[]> => {
    const { organization, role, actor } = visit;
    return cached([organization, role], async () => {
      const wanted = { organization, status: 'active', sort: 'name', limit: aPage };
      const names: string[] = [];
      for (let page = 1; page <= mostPages; page += 1) {
        const { items, total } = await perform(agentList, { ...wanted, page }, actor, ports);
        names.push(...items.map(({ name }) => name));
        if (names.length >= total) break;
      }
      return names;
    });
  };
}

/** What stops working together with a server, with counts, one sentence each. */
export function lostWith({
  activeClients,
  activeKeys,
  activeGrants,
}: ServerDependents): readonly string[] {
  if (activeClients + activeKeys + activeGrants === 0) {
    return ['It has no active OAuth clients, API keys or grants.'];
  }
  return [
    ...(activeClients > 0
      ? [
          `${counted(activeClients, 'OAuth client uses', 'OAuth clients use')} it; ${losing(activeClients)}.`,
        ]
      : []),
    ...(activeKeys > 0
      ? [
          `${counted(activeKeys, 'API key grants', 'API keys grant')} access to it; ${stopping(activeKeys)}.`,
        ]
      : []),
    ...(activeGrants > 0
      ? [
          `${counted(activeGrants, 'application has', 'applications have')} access on behalf of people; ${losing(activeGrants)}.`,
        ]
      : []),
  ];
}

function losing(count: number): string {
  return count === 1 ? 'it loses access immediately' : 'they lose access immediately';
}

function stopping(count: number): string {
  return count === 1 ? 'it stops working immediately' : 'they stop working immediately';
}
