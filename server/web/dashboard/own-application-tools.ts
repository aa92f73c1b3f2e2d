import { notFound } from '#admin/refusal';
import { toolSelection } from '#admin/tool-selection';
import type { NamedGrant } from '#db/grants';
import type { ToolSelection } from '#model/tool-rights';
import type { Form } from '#oauth/forms';
import { limitGrant } from '#oauth/revocation';
import { accessName } from '#web/access-words';
import { applicationName } from '#web/consent';
import { errorOf, errorSummary, type FieldError, formActions, postForm } from '#web/forms';
import { html, type Html } from '#web/html';
import { type Frame, layout, pageHeading } from '#web/layout';
import { seeOther } from '#web/page-request';
import { visitOf } from '#web/page-session';
import {
  enteredTools,
  type EnteredTools,
  selectionOf,
  sentTools,
  toolChoiceField,
} from '#web/tool-choice';
import { personWords, type UsableTools, usableTools } from '#web/usable-tools';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { applicationCrumbs, applicationsPath, grantOf, toUse } from './own-applications.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';

/**
 * `/applications/{grantId}/tools`: what an application may use of a server for the person, who can narrow it and widen it again, up to
 * what they may use themselves.
 */
export function ownApplicationToolRoutes(guard: DashboardGuard): void {
  guard.get('/applications/:grantId/tools', toUse, showTools);
  guard.post('/applications/:grantId/tools', toUse, changeTools);
}

async function openGrant(
  visit: DashboardVisit,
  request: DashboardRequest,
  options: DashboardOptions,
) {
  const grant = await grantOf(visit, request, options);
  if (grant.revokedAt !== undefined) throw notFound('grant');
  return { grant, usable: await usableTools(grant, options.ports) };
}

const showTools: PageHandler = async (visit, request, reply, options) => {
  const { grant, usable } = await openGrant(visit, request, options);
  const data = pageData(visit, request, { grant, usable, entered: enteredTools(grant.tools) });
  const crumbs = toolCrumbs(visit, grant);
  return sendDashboardPage(reply, visit, ownToolsPage, data, { crumbs });
};

const changeTools: FormHandler = async (visit, sent, request, reply, options) => {
  const { grant, usable } = await openGrant(visit, request, options);
  const chosen = chosenTools(sent, { grant, usable });
  if (chosen.outcome === 'refused') {
    const errors = [{ field: 'tools', message: chosen.why }];
    const entered = sentTools(sent, 'tools');
    const data = pageData(visit, request, { grant, usable, entered, errors });
    const crumbs = toolCrumbs(visit, grant);
    return sendDashboardPage(reply, visit, ownToolsPage, data, { crumbs });
  }
  const ports = { ...options.ports, source: visitOf(request) };
  if (!(await limitGrant(grant.id, visit.person.user.id, chosen.tools, ports))) {
    throw notFound('grant');
  }
  return seeOther(reply, `${applicationsPath(visit.organization)}?done=tools`);
};

function toolCrumbs({ organization }: DashboardVisit, grant: NamedGrant) {
  return applicationCrumbs(
    organization,
    `${applicationName(grant)}: ${accessName(grant)}`,
    'Tools',
  );
}

type ChosenTools =
  | { readonly outcome: 'chosen'; readonly tools: ToolSelection }
  | { readonly outcome: 'refused'; readonly why: string };

/** Reads the chosen tools. Refuses a tool or prompt, unless the person may use it themselves or the application has it already. */
function chosenTools(
  sent: Form,
  { grant, usable }: { readonly grant: NamedGrant; readonly usable: UsableTools },
): ChosenTools {
  const { data: tools } = toolSelection.safeParse(selectionOf(sentTools(sent, 'tools')));
  if (!tools)
    return { outcome: 'refused', why: 'Choose at least one tool, or allow only reading.' };
  if (tools.type !== 'chosen') return { outcome: 'chosen', tools };
  const before = enteredTools(grant.tools);
  const known = new Set([...before, ...usable.items.map(({ kind, name }) => `${kind}:${name}`)]);
  const strange = enteredTools(tools)
    .slice(1)
    .find((one) => !one.startsWith('resource:') && !known.has(one));
  if (strange === undefined) return { outcome: 'chosen', tools };
  const name = strange.slice(strange.indexOf(':') + 1);
  return {
    outcome: 'refused',
    why: `You cannot use ${name} yourself, so no application can for you.`,
  };
}

function pageData(
  { organization }: DashboardVisit,
  { url }: DashboardRequest,
  {
    grant,
    usable,
    entered,
    errors = [],
  }: {
    readonly grant: NamedGrant;
    readonly usable: UsableTools;
    readonly entered: EnteredTools;
    readonly errors?: readonly FieldError[];
  },
) {
  return {
    client: applicationName(grant),
    access: accessName(grant),
    action: url,
    cancel: applicationsPath(organization),
    usable,
    entered,
    errors,
  };
}

/** A form for what one application may use of a server on a device. */
function ownToolsPage(data: ReturnType<typeof pageData>, frame: Frame): Html {
  const { client, access, action, cancel, usable, entered, errors } = data;
  const heading = `What ${client} may use of ${access}`;
  const choice = toolChoiceField({
    name: 'tools',
    legend: 'Tools',
    error: errorOf(errors, 'tools'),
    entered,
    items: usable.items,
    words: personWords(usable),
  });
  const lead = 'The change takes effect on the next call.';
  const content = html`${pageHeading({ heading, lead })}
${errorSummary(errors)}
${postForm(frame, { action, novalidate: true }, html`${choice} ${formActions('Save', cancel)}`)}`;
  return layout(
    { title: errors.length > 0 ? 'Not saved yet' : heading, width: 'form' },
    frame,
    content,
  );
}
