import type { FastifyReply } from 'fastify';

import { perform } from '#administration/perform';
import { serverCreate } from '#administration/server-operations';
import { seeOther } from '#http/see-other';
import { dashboardPath } from '#pages/dashboard-frame';
import type { FieldError } from '#pages/page';
import { activeAgents } from './active-agents.ts';
import type { DashboardDoor, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverFormPage, type TypedServer } from './server-form-page.ts';
import { serverPath } from './server-tabs.ts';
import { emptyServer, serverErrors, serverInput, typedServer } from './typed-server.ts';

const manage = { permission: 'server.manage', section: 'servers' } as const;

/** `/new-server`. */
export function newServerRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  const agentsFor = activeAgents(ports);
  const form = async (
    reply: FastifyReply,
    visit: DashboardVisit,
    typed: TypedServer,
    errors: FieldError[],
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
      isDisabled: false,
      dangers: [],
    };
    const crumbs = [{ text: 'Servers', href: `${home}/servers` }, { text: 'Create server' }];
    const status = errors.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, serverFormPage, data, { crumbs, status });
  };

  door.get('/new-server', manage, async (visit, _request, reply) =>
    form(reply, visit, emptyServer(), []),
  );

  door.post('/new-server', manage, async (visit, sent, _request, reply) => {
    const typed = typedServer(sent);
    const { organization, actor } = visit;
    try {
      const input = { organization, ...serverInput(typed).made };
      const { name } = await perform(serverCreate, input, actor, ports);
      const next = `${serverPath(organization, name)}?done=created`;
      return seeOther(reply, next);
    } catch (refusal) {
      return form(reply, visit, typed, serverErrors(refusal, typed, 'name'));
    }
  });
}
