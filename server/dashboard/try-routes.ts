import type { FastifyReply } from 'fastify';

import { perform } from '#administration/perform';
import { serverRead } from '#administration/server-operations';
import { answerResult } from '#console/answer-result';
import type { CallServer } from '#console/call-server';
import { listTools } from '#console/list-tools';
import { shownResult, type ShownResult } from '#console/shown-result';
import { toolFields } from '#console/tool-fields';
import { typedArguments, type ArgumentProblem } from '#console/typed-arguments';
import { queryText } from '#http/query-text';
import { visitOf } from '#http/visit';
import { shownName } from '#pages/plain-text';
import { tryPage } from '#pages/try-page';
import type { DashboardDoor, DashboardRequest, DashboardVisit } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';
import { serverCrumbs } from './server-crumbs.ts';
import { serverPath, serverTabs } from './server-tabs.ts';
import { toolFormField } from './tool-form-field.ts';
import { whereCallsEnd } from './where-calls-end.ts';

/** The way through the gateway to a server. */
export interface TryRoutesPorts {
  readonly callServer: CallServer;
}

/** What was typed and what came of it. */
interface Tried {
  readonly tool: string | undefined;
  readonly typed: ReadonlyMap<string, string>;
  readonly problems: readonly ArgumentProblem[];
  readonly result: ShownResult | undefined;
}

const needs = { permission: 'server.try', section: 'servers' } as const;
const mostTools = 200;
/** What a person finds whose groups may not use the server. */
const outsideItsGroups = { outcome: 'none' } as const;

/** `/servers/{server}/try`: lists its tools and calls them, as whoever looks at the page. */
export function tryRoutes(
  door: DashboardDoor,
  { ports }: { readonly ports: DashboardOptions['ports'] },
): void {
  const { callServer, audit, clock } = ports;

  const place = async (visit: DashboardVisit, request: DashboardRequest) => {
    const { id, params } = request;
    const { organization, actor, person } = visit;
    const { server = '' } = params;
    const shown = await perform(serverRead, { organization, server }, actor, ports);
    const { address } = visitOf(request);
    const asker = { userId: person.user.id, organization, server, address, requestId: id };
    const here = { server, shown, heading: shown.title || server, asker };
    // The gateway would say no more than that nobody gets in; whose member somebody is may be told themselves.
    const isTheirs = await ports.serverGroups.mayUse(person.user.id, `${organization}/${server}`);
    if (!isTheirs) return { ...here, list: outsideItsGroups };
    return { ...here, list: await listTools(asker, callServer) };
  };

  const show = (
    reply: FastifyReply,
    visit: DashboardVisit,
    { server, shown, heading, list }: Awaited<ReturnType<typeof place>>,
    { tool: name, typed, problems, result }: Tried,
  ) => {
    const path = `${serverPath(visit.organization, server)}/try`;
    const tools = list.outcome === 'tools' ? list.tools : [];
    const tool = tools.find((one) => one.name === name);
    const fields = tool
      ? toolFields(tool).map((field, index) => toolFormField(field, index, { typed, problems }))
      : [];
    const data = {
      server,
      heading,
      tabs: serverTabs(visit, server, 'try'),
      problem:
        list.outcome === 'error'
          ? { ...list, nextLook: whereCallsEnd(list, shown, visit) }
          : undefined,
      keptTo:
        list === outsideItsGroups ? `${serverPath(visit.organization, server)}/access` : undefined,
      tools: tools.slice(0, mostTools).map((one) => ({
        name: one.name,
        text: shownName(one.name),
        href: `${path}?tool=${encodeURIComponent(one.name)}`,
        isHere: one === tool,
      })),
      tool: tool && {
        name: tool.name,
        description: (tool.description ?? '').slice(0, 4000),
        fields,
      },
      action: path,
      errors: fields
        .filter(({ error }) => error !== '')
        .map(({ id, error }) => ({ field: id, message: error })),
      result,
    };
    const crumbs = serverCrumbs(visit.organization, server, { text: 'Try it' });
    const status = problems.length > 0 ? 422 : 200;
    return sendDashboardPage(reply, visit, tryPage, data, { crumbs, status });
  };

  door.get('/servers/:server/try', needs, async (visit, request, reply) => {
    const tool = queryText(request, 'tool');
    const nothing = { typed: new Map<string, string>(), problems: [], result: undefined };
    return show(reply, visit, await place(visit, request), { tool, ...nothing });
  });

  door.post('/servers/:server/try', needs, async (visit, form, request, reply) => {
    const here = await place(visit, request);
    const { asker, list, server } = here;
    const typed = new Map(
      [...form]
        .filter(([name]) => name.startsWith('argument.'))
        .map(([name, value]) => [name.slice('argument.'.length), value] as const),
    );
    const name = form.get('tool') ?? '';
    const tool = list.outcome === 'tools' ? list.tools.find((one) => one.name === name) : undefined;
    const tried = { tool: name, typed, problems: [], result: undefined };
    if (!tool) return show(reply, visit, here, tried);
    const { values, problems } = typedArguments(toolFields(tool), typed);
    if (problems.length > 0) return show(reply, visit, here, { ...tried, problems });
    const params = { name, arguments: values };
    const answer = answerResult(await callServer({ ...asker, method: 'tools/call', params }));
    await audit.append({
      at: clock.now(),
      actor: `user:${asker.userId}`,
      organization: visit.organization,
      action: 'server.try',
      target: `server:${visit.organization}/${server} tool:${name.slice(0, 128)}`,
      address: visit.actor.address,
      requestId: request.id,
      outcome: answer.outcome === 'result' ? 'done' : 'refused',
    });
    return show(reply, visit, here, { ...tried, result: shownResult(answer) });
  });
}
