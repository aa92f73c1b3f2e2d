import type { FastifyReply } from 'fastify';

import { isConflict } from '#administration/administration-refusal';
import { perform } from '#administration/perform';
import {
  serverDelete,
  serverDisable,
  serverEnable,
  serverRead,
  serverUpdate,
} from '#administration/server-operations';
import { queryText } from '#http/query-text';
import { seeOther } from '#http/see-other';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import { activeAgents } from './active-agents.ts';
import type { DashboardDoor, DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { lostWith } from './lost-with.ts';
import { questionRoutes } from './question-routes.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverFormPage, type TypedServer } from './server-form-page.ts';
import { serverPath, serverTabs } from './server-tabs.ts';
import { serverAsTyped, serverErrors, serverInput, typedServer } from './typed-server.ts';

const needs = { permission: 'server.manage', section: 'servers' } as const;

const notices: Readonly<Record<string, string>> = {
  saved: 'Saved. It counts from the next call on.',
  'without-headers':
    'Saved. Its fixed headers were for the server at the former address, and were removed: enter those that the new one needs under Authorization.',
};

const stale = {
  field: '',
  message:
    'Somebody else saved this server meanwhile, and nothing was changed. What you typed is kept here: save again to put it in place of theirs, or open the settings anew to see theirs.',
};

/** What was typed, or stands, and what is said about it. */
interface Shown {
  readonly typed: TypedServer;
  readonly errors: readonly FieldError[];
  readonly notice: string | undefined;
  /** 200 unless given. */
  readonly status?: number;
}

/** `/servers/{server}/settings`, and taking a server out of use: `/disable`, `/enable`, `/delete`. */
export function serverSettingsRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const agentsFor = activeAgents(ports);
  const read = ({ organization, actor }: DashboardVisit, { params }: DashboardRequest) =>
    perform(serverRead, { organization, server: params['server'] ?? '' }, actor, ports);

  const form = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    server: Awaited<ReturnType<typeof read>>,
    { status = 200, ...shown }: Shown,
  ) => {
    const { organization } = visit;
    const { name, disabledAt } = server;
    const home = serverPath(organization, name);
    const isDisabled = disabledAt !== null;
    const data = {
      ...shown,
      isNew: false,
      heading: server.title || name,
      tabs: serverTabs(visit, name, 'settings'),
      action: `${home}/settings`,
      cancel: home,
      agents: await agentsFor(visit),
      newAgent: `${dashboardPath(organization)}/new-agent`,
      isDisabled,
      dangers: [
        isDisabled
          ? {
              text: 'Enable',
              help: 'Let it serve again, with the same clients and keys.',
              href: `${home}/enable`,
              isHarmless: true,
            }
          : {
              text: 'Disable',
              help: 'Let it answer nobody, until it is enabled again.',
              href: `${home}/disable`,
              isHarmless: false,
            },
        {
          text: 'Delete',
          help: 'Remove it for good, with its clients and keys.',
          href: `${home}/delete`,
          isHarmless: false,
        },
      ],
    };
    const crumbs = serverCrumbs(organization, name, { text: 'Settings' });
    return sendDashboardPage(reply, visit, serverFormPage, data, { crumbs, status });
  };

  door.get('/servers/:server/settings', needs, async (visit, request, reply) => {
    const server = await read(visit, request);
    const notice = notices[queryText(request, 'done') ?? ''];
    return form(reply, visit, server, { typed: serverAsTyped(server), errors: [], notice });
  });

  door.post('/servers/:server/settings', needs, async (visit, sent, request, reply) => {
    const server = await read(visit, request);
    const { organization, actor } = visit;
    const typed = typedServer(sent);
    let done = 'saved';
    try {
      const change = { organization, server: server.name, ...serverInput(typed).changed };
      const { removedHeaders } = await perform(serverUpdate, change, actor, ports);
      if (removedHeaders.length > 0) done = 'without-headers';
    } catch (refusal) {
      const now = await read(visit, request);
      const revision = String(now.revision);
      const isStale = isConflict(refusal) && typed.revision !== revision;
      // Only who was told that others changed it may put what they typed in place of that.
      const shown = isStale
        ? { typed: { ...typed, revision }, errors: [stale], status: 409 }
        : { typed, errors: serverErrors(refusal, typed, ''), status: 422 };
      return form(reply, visit, now, { ...shown, notice: undefined });
    }
    const next = `${serverPath(organization, server.name)}/settings?done=${done}`;
    return seeOther(reply, next);
  });

  questionRoutes(door, '/servers/:server/disable', needs, {
    async ask(visit, request) {
      const { name, activeClients, activeKeys, activeGrants } = await read(visit, request);
      const home = serverPath(visit.organization, name);
      return {
        heading: `Disable the server ${name}?`,
        consequences: [
          ...lostWith({ activeClients, activeKeys, activeGrants }),
          'Calls under way end. Everything works again once the server is enabled.',
        ],
        verb: 'Disable the server',
        cancel: `${home}/settings`,
        crumbs: serverCrumbs(visit.organization, name, { text: 'Disable' }),
      };
    },
    async act({ organization, actor }, { params }) {
      const { server = '' } = params;
      await perform(serverDisable, { organization, server }, actor, ports);
      return `${serverPath(organization, server)}?done=disabled`;
    },
  });

  questionRoutes(door, '/servers/:server/enable', needs, {
    async ask(visit, request) {
      const { name } = await read(visit, request);
      return {
        heading: `Enable the server ${name}?`,
        consequences: ['Its clients, keys and consents that are in force count again at once.'],
        verb: 'Enable the server',
        isHarmless: true,
        cancel: `${serverPath(visit.organization, name)}/settings`,
        crumbs: serverCrumbs(visit.organization, name, { text: 'Enable' }),
      };
    },
    async act({ organization, actor }, { params }) {
      const { server = '' } = params;
      await perform(serverEnable, { organization, server }, actor, ports);
      return `${serverPath(organization, server)}?done=enabled`;
    },
  });

  questionRoutes(door, '/servers/:server/delete', needs, {
    async ask(visit, request) {
      const { name, activeClients, activeKeys, activeGrants } = await read(visit, request);
      return {
        heading: `Delete the server ${name}?`,
        consequences: [
          ...lostWith({ activeClients, activeKeys, activeGrants }),
          'There is no way back. The audit log keeps what happened.',
        ],
        verb: 'Delete the server',
        typed: { label: `Type ${name} to go on`, expected: name, error: undefined },
        cancel: `${serverPath(visit.organization, name)}/settings`,
        crumbs: serverCrumbs(visit.organization, name, { text: 'Delete' }),
      };
    },
    async act({ organization, actor }, { params }) {
      await perform(serverDelete, { organization, server: params['server'] ?? '' }, actor, ports);
      return `${dashboardPath(organization)}/servers?done=deleted`;
    },
  });
}
