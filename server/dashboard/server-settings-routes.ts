import type { FastifyReply } from 'fastify';

import { perform } from '#administration/perform';
import {
  serverDelete,
  serverDisable,
  serverEnable,
  serverRead,
  serverUpdate,
} from '#administration/server-operations';
import { queryText } from '#http/query-text';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import type { DashboardDoor, DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { lostWith } from './lost-with.ts';
import { questionRoutes } from './question-routes.ts';
import { refusedForm } from './refused-form.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverFormPage, type TypedServer } from './server-form-page.ts';
import { activeAgents } from './server-routes.ts';
import { serverPath, serverTabs } from './server-tabs.ts';
import { serverAsTyped, serverInput, serverLabels, typedServer } from './typed-server.ts';

const needs = { permission: 'server.manage', section: 'servers' } as const;

/** `/servers/{server}/settings`, and taking a server out of use: `/disable`, `/enable`, `/delete`. */
export function serverSettingsRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const read = ({ organization, actor }: DashboardVisit, { params }: DashboardRequest) =>
    perform(serverRead, { organization, server: params['server'] ?? '' }, actor, ports);

  const form = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    server: Awaited<ReturnType<typeof read>>,
    shown: { typed: TypedServer; errors: FieldError[]; notice: string | undefined },
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
      agents: await activeAgents(visit, ports),
      dangers: [
        isDisabled
          ? {
              text: 'Enable',
              help: 'Let it serve again, with the same clients and keys.',
              href: `${home}/enable`,
              isQuestion: true,
            }
          : {
              text: 'Disable',
              help: 'Let it answer nobody, until it is enabled again.',
              href: `${home}/disable`,
              isQuestion: true,
            },
        {
          text: 'Delete',
          help: 'Remove it for good, with its clients and keys.',
          href: `${home}/delete`,
          isQuestion: true,
        },
      ],
    };
    const crumbs = serverCrumbs(organization, name, { text: 'Settings' });
    const status = shown.errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, serverFormPage, data, { crumbs, status });
  };

  door.get('/servers/:server/settings', needs, async (visit, request, reply) => {
    const server = await read(visit, request);
    const isSaved = queryText(request, 'done') === 'saved';
    const notice = isSaved ? 'Saved. It counts from the next call on.' : undefined;
    return form(reply, visit, server, { typed: serverAsTyped(server), errors: [], notice });
  });

  door.post('/servers/:server/settings', needs, async (visit, sent, request, reply) => {
    const server = await read(visit, request);
    const { organization, actor } = visit;
    const typed = typedServer(sent);
    try {
      const change = { organization, server: server.name, ...serverInput(typed).changed };
      await perform(serverUpdate, change, actor, ports);
    } catch (refusal) {
      const errors = refusedForm(refusal, serverLabels, '');
      // What was typed is kept, and counts against what the server is now.
      const { revision } = await read(visit, request);
      const retyped = { ...typed, revision: String(revision) };
      return form(reply, visit, server, { typed: retyped, errors, notice: undefined });
    }
    const next = `${serverPath(organization, server.name)}/settings?done=saved`;
    return reply.header('Cache-Control', 'no-store').redirect(next, 303);
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
