import type { FastifyReply } from 'fastify';
import { serverRead, type ServerView } from '#admin/servers';
import {
  type AnswerError,
  answerResult,
  listTools,
  toResultView,
  type ResultView,
} from '#console/call-server';
import {
  type ArgumentProblem,
  type ToolField,
  toolFields,
  typedArguments,
} from '#console/tool-fields';
import { insertAuditEvent } from '#db/audit';
import { nextStepFor } from '#model/upstream-kinds';
import { csrfField, descriptionAttributes, errorSummary, errorText, hiddenField } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import { type Frame, layout, pageHeading, tabNavigation } from '#web/layout';
import { queryText } from '#web/page-request';
import { visitOf } from '#web/page-session';
import { titleText } from '#web/titles';
import { agentPath } from './agents.ts';
import { sendExclusion } from './closed-server.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardPorts } from './ports.ts';
import { serverCrumbs, serverPath, serverTabs } from './server-tabs.ts';

/** The entered values and the result. */
interface Tried {
  readonly tool: string | undefined;
  readonly typed: ReadonlyMap<string, string>;
  readonly problems: readonly ArgumentProblem[];
  readonly result: ResultView | undefined;
}

const needs = 'server.try';
const mostTools = 200;

/** `/servers/{server}/try`: lists the tools of a server and calls them as the signed-in person. */
export function tryRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/try', needs, showTools);
  guard.post('/servers/:server/try', needs, callTool);
}

/** The server in the path, its caller and its tools. */
async function openServer(visit: DashboardVisit, request: DashboardRequest, ports: DashboardPorts) {
  const { id, params } = request;
  const { organization, person } = visit;
  const { server = '' } = params;
  const shown = await visit.perform(serverRead, { server });
  const { address } = visitOf(request);
  const caller = { userId: person.user.id, organization, server, address, requestId: id };
  return { server, shown, caller, list: await listTools(caller, ports.callServer) };
}

function show(
  reply: FastifyReply,
  visit: DashboardVisit,
  here: Awaited<ReturnType<typeof openServer>>,
  tried: Tried,
) {
  const crumbs = serverCrumbs(visit, { text: 'Try it' });
  const status = tried.problems.length > 0 ? 422 : 200;
  return sendDashboardPage(reply, visit, tryPage, tryData(visit, here, tried), { crumbs, status });
}

/** The tools of a server, or why there are none to show, and the selected one with the result of its call. */
function tryData(
  visit: DashboardVisit,
  { server, shown, list }: Awaited<ReturnType<typeof openServer>>,
  { tool: name, typed, problems, result }: Tried,
) {
  const path = `${serverPath(visit.organization, server)}/try`;
  const tools = list.outcome === 'tools' ? list.tools : [];
  const tool = tools.find((one) => one.name === name);
  const fields = tool
    ? toolFields(tool).map((field, index) => toolFormField(field, index, { typed, problems }))
    : [];
  return {
    heading: visit.server,
    tabs: serverTabs(visit, server, 'try'),
    problem:
      list.outcome === 'error'
        ? { ...list, nextLook: whereCallsEnd(list, shown, visit) }
        : undefined,
    tools: tools.slice(0, mostTools).map((one) => ({
      name: one.name,
      text: displayName(one.name),
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
}

const showTools: PageHandler = async (visit, request, reply, { ports }) => {
  // The gateway would refuse without a reason, but a member may learn that the server is restricted to groups.
  if (visit.server.isClosed) return sendExclusion(visit, reply, 'try', ports);
  const tool = queryText(request, 'tool');
  const nothing = { typed: new Map<string, string>(), problems: [], result: undefined };
  return show(reply, visit, await openServer(visit, request, ports), { tool, ...nothing });
};

const callTool: FormHandler = async (visit, form, request, reply, { ports }) => {
  if (visit.server.isClosed) return sendExclusion(visit, reply, 'try', ports);
  const here = await openServer(visit, request, ports);
  const { caller, list, server } = here;
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
  const answer = answerResult(await ports.callServer({ ...caller, method: 'tools/call', params }));
  await insertAuditEvent(ports.db, {
    at: ports.clock.now(),
    actor: `user:${caller.userId}`,
    organization: visit.organization,
    action: 'server.try',
    target: `server:${visit.organization}/${server} tool:${name.slice(0, 128)}`,
    address: visit.actor.address,
    requestId: request.id,
    outcome: answer.outcome === 'result' ? 'done' : 'refused',
  });
  return show(reply, visit, here, { ...tried, result: toResultView(answer) });
};

type TryPageData = ReturnType<typeof tryData>;

/** The page where a signed-in person calls the tools of a server as themselves. */
function tryPage(data: TryPageData, frame: Frame): Html {
  const { heading, tabs } = data;
  const lead =
    'Call a tool as yourself. Your scopes and limits apply, and the call is recorded in usage and in the audit log.';
  const content = html`${pageHeading({ heading, lead })}
${tabNavigation(tabs)}
${toolsOrReason(data, frame)}`;
  return layout({ title: `Try ${titleText(heading)}`, width: 'table' }, frame, content);
}

function toolsOrReason(data: TryPageData, frame: Frame): Html {
  const { problem, tools, tool } = data;
  if (problem) {
    const { message, code, nextLook } = problem;
    return html`<div class="notice warning" role="status"><p dir="auto">${message}</p>${errorCode(code)}</div>
${
  nextLook &&
  html`<p class="lead">${nextLook.text}</p>
<p><a class="button" href="${nextLook.link.href}">${nextLook.link.text}</a></p>`
}`;
  }
  if (tools.length === 0) {
    return html`<div class="empty"><p>This server has no tools that you can call.</p></div>`;
  }
  return html`<div class="trying">
<nav aria-label="Tools">
<ul class="tools">
${tools.map(({ text, href, isHere }) => html`<li><a href="${href}"${isHere && html` aria-current="page"`} dir="auto">${text}</a></li>`)}
</ul>
</nav>
<div class="group">
${tool ? toolForm(tool, data, frame) : html`<p class="lead">Select a tool.</p>`}
</div>
</div>`;
}

function toolForm(
  { name, description, fields }: NonNullable<TryPageData['tool']>,
  { action, errors, result }: TryPageData,
  frame: Frame,
): Html {
  return html`<h2 dir="auto"><code>${name}</code></h2>
${description && html`<p class="described" dir="auto">${description}</p>`}
<div class="tried">
<form method="post" action="${action}">
${errorSummary(errors)}
${csrfField(frame)}
${hiddenField('tool', name)}
${fields.map(toolField)}
${fields.length === 0 && html`<p class="help">This tool takes no arguments.</p>`}
<div class="actions"><button class="primary">Call ${name.length > 40 ? 'the tool' : name}</button></div>
<p class="help">This is a real call: it can change data.</p>
</form>
${result && callResult(result)}
</div>`;
}

function callResult({ isError, summary, code, parts }: NonNullable<TryPageData['result']>): Html {
  return html`<section class="result group" aria-labelledby="result-heading">
<h3 id="result-heading" class="notice${isError && ' failed'}" tabindex="-1" autofocus>${summary}</h3>
${errorCode(code)}
${parts.map(
  ({ title, text, isCut }) =>
    html`<div>
<p class="label">${title}</p>
<pre tabindex="0" dir="auto">${text}</pre>
${isCut && html`<p class="help">Only the beginning is shown.</p>`}
</div>`,
)}
</section>`;
}

/** The error code, for people who manage the MCP server. */
function errorCode(code: number | undefined): Html | undefined {
  if (code === undefined) return undefined;
  return html`<p class="help fine">Error code <code>${code}</code></p>`;
}

function toolField(field: ToolFormField): Html {
  const { id, label, required, error, help } = field;
  return html`<div class="field${error && ' wrong'}">
<label for="${id}"><span dir="auto">${label}</span>${!required && html` <span class="optional">(optional)</span>`}</label>
${toolInput(field)}
${errorText(id, error)}
${help && html`<p class="help" id="${id}-help" dir="auto">${help}</p>`}
</div>`;
}

function toolInput(field: ToolFormField): Html {
  const { id, kind, options, value, required } = field;
  const attributes = html`id="${id}"
name="${field.field}"${descriptionAttributes(id, field)}${required && html` required`}`;
  switch (kind) {
    case 'boolean':
    case 'choice': {
      const choices = kind === 'boolean' ? ['true', 'false'] : options;
      return html`<select ${attributes}>
<option value=""></option>
${choices.map(
  (choice) =>
    html`<option value="${choice}"${choice === value && html` selected`}>
${choice}
</option>`,
)}
</select>`;
    }
    case 'json':
      return html`<textarea ${attributes} class="code-like" rows="4" spellcheck="false">
${value}</textarea>`;
    case 'text':
      return html`<textarea ${attributes} rows="2" dir="auto" spellcheck="false">
${value}</textarea>`;
    case 'number':
    case 'integer':
      return html`<input ${attributes} type="text" inputmode="${kind === 'integer' ? 'numeric' : 'decimal'}" value="${value}" autocomplete="off">`;
  }
}

/** A field of a tool's form, with its value and error. Its name and texts come from the upstream. */
function toolFormField(
  { name, kind, options, description, required }: ToolField,
  place: number,
  { typed, problems }: { typed: ReadonlyMap<string, string>; problems: readonly ArgumentProblem[] },
) {
  const error = problems.find((problem) => problem.name === name)?.message ?? '';
  const format = kind === 'json' ? 'JSON. ' : '';
  return {
    // Safe in an id, unlike the argument's name.
    id: `argument-${place}`,
    // No other field of the form has the prefix.
    field: `argument.${name}`,
    label: displayName(name),
    kind,
    options,
    help: `${format}${description.slice(0, 1000)}`.trim(),
    required,
    value: typed.get(name) ?? '',
    error,
  };
}

type ToolFormField = ReturnType<typeof toolFormField>;

/** A hint for people who manage a server that did not answer. */
interface NextLook {
  readonly text: string;
  readonly link: { readonly text: string; readonly href: string };
}

/** The gateway's code for servers that are unreachable, fail or are overloaded. */
const notServed = -32_000;

/**
 * The next step after a call that failed before or at the MCP server; `undefined` for people without permission to
 * take it.
 */
export function whereCallsEnd(
  { code }: AnswerError,
  { name, upstream }: Pick<ServerView, 'name' | 'upstream'>,
  { organization, may }: Pick<DashboardVisit, 'organization' | 'may'>,
): NextLook | undefined {
  if (code !== notServed || !may('server.manage')) return undefined;
  const next = nextStepFor(upstream, name);
  if (!next) return undefined;
  const { text, to } = next.link;
  const href =
    to === 'settings'
      ? `${serverPath(organization, name)}/settings`
      : agentPath(organization, to.agent);
  return { text: next.text, link: { text, href } };
}
