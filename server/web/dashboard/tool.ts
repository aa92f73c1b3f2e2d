// The page of one tool, prompt, resource, template or the instructions of a server, with the form that corrects a tool for assistants.

import { serverRead } from '#admin/servers';
import { notFound } from '#admin/refusal';
import { toolCorrect, toolList, type ToolView } from '#admin/tools';
import type { EpochSeconds } from '#model/clock';
import type { Form } from '#oauth/forms';
import {
  errorOf,
  errorSummary,
  type FieldError,
  hiddenField,
  postForm,
  selectField,
  textArea,
  textField,
} from '#web/forms';
import { html, type Html } from '#web/html';
import { revealed } from '#web/invisible';
import {
  badge,
  type Frame,
  layout,
  type Link,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { queryChoice, queryText, seeOther } from '#web/page-request';
import { type Fact, factList, timeCell } from '#web/tables';
import { titleText } from '#web/titles';
import { findActorNames } from './actors.ts';
import { activityPath } from './calls.ts';
import { definitionList, definitionParts } from './compared.ts';
import { refusedForm } from './forms.ts';
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
import { partNavigation, toolPath, toolTabs } from './tool-tabs.ts';
import { usableByVisitor } from './tool-visitor.ts';
import { audienceWords, hintBadge, kindWords, nameOf, stateBadges } from './tool-words.ts';

const toRead = 'server.read';
const toManage = 'server.manage';

/** `/servers/{server}/tools/one?name=…`: one tool, prompt, resource or template, or the instructions. */
export function toolPageRoutes(guard: DashboardGuard): void {
  guard.get('/servers/:server/tools/one', toRead, showTool);
  guard.post('/servers/:server/tools/one', toManage, correct);
}

const notices: Readonly<Record<string, string>> = {
  corrected: 'Saved. Assistants see the correction when they next list the tools.',
  removed: 'Correction removed. Assistants see what the server says.',
};

const hints = [
  {
    field: 'readOnly',
    label: 'Only reads',
    help: 'It changes nothing. Many assistants call it without asking.',
  },
  {
    field: 'destructive',
    label: 'Destructive',
    help: 'It may delete or overwrite something. If that is not stated, assistants assume it of tools that do not only read.',
  },
  {
    field: 'idempotent',
    label: 'Repeatable',
    help: 'Calling it again with the same arguments changes nothing more.',
  },
  {
    field: 'openWorld',
    label: 'Reaches outside',
    help: 'It deals with systems outside of the server, such as a web search.',
  },
] as const;
type HintField = (typeof hints)[number]['field'];

/** The values entered in the form of a correction. */
interface EnteredCorrection {
  readonly title: string;
  readonly description: string;
  /** `true`, `false`, or empty for the value that the server gives. */
  readonly hints: ReadonlyMap<HintField, string>;
}

/** The definition on the page. A person who may not use it does not learn that it exists. @throws {AdministrationRefusal} `not_found` */
async function openTool(visit: DashboardVisit, request: DashboardRequest, ports: DashboardPorts) {
  const { server: serverName = '' } = request.params;
  const server = await visit.perform(serverRead, { server: serverName });
  const { items } = await visit.perform(toolList, { server: serverName });
  const kind = queryText(request, 'kind') ?? 'tool';
  const name = queryText(request, 'name');
  const tool = items.find((one) => one.kind === kind && one.name === name);
  const mayUse = await usableByVisitor(visit, serverName, ports);
  if (!tool || !mayUse(tool)) throw notFound('tool');
  return { server, tool };
}

const showTool: PageHandler = async (visit, request, reply, { ports }) => {
  const { server, tool } = await openTool(visit, request, ports);
  return sendTool(visit, request, reply, {
    server,
    tool,
    entered: enteredOf(tool),
    ports,
    notice: queryChoice(request, 'done', notices),
  });
};

function enteredOf({ correction }: ToolView): EnteredCorrection {
  return {
    title: correction?.title ?? '',
    description: correction?.description ?? '',
    hints: new Map(hints.map(({ field }) => [field, String(correction?.hints[field] ?? '')])),
  };
}

const correct: FormHandler = async (visit, sent, request, reply, { ports }) => {
  const { server, tool } = await openTool(visit, request, ports);
  const isRemoval = sent.get('step') === 'remove';
  const entered = isRemoval ? nothingEntered : enteredIn(sent);
  const { title, description } = entered;
  const change = {
    title: title === '' ? null : title,
    description: description === '' ? null : description,
    readOnly: hintIn(entered, 'readOnly'),
    destructive: hintIn(entered, 'destructive'),
    idempotent: hintIn(entered, 'idempotent'),
    openWorld: hintIn(entered, 'openWorld'),
  };
  try {
    await visit.perform(toolCorrect, { server: server.name, name: tool.name, ...change });
  } catch (refusal) {
    const errors = refusedForm(refusal, {
      title: { field: 'title', label: 'The title' },
      description: { field: 'description', label: 'The description' },
    });
    return sendTool(visit, request, reply, { server, tool, entered, errors, ports });
  }
  const isEmpty = Object.values(change).every((value) => value === null);
  const path = toolPath(visit.organization, server.name, tool);
  return seeOther(reply, `${path}&done=${isEmpty ? 'removed' : 'corrected'}`);
};

const nothingEntered: EnteredCorrection = { title: '', description: '', hints: new Map() };

function enteredIn(sent: Form): EnteredCorrection {
  return {
    title: sent.get('title')?.trim() ?? '',
    // Browsers send line breaks as CRLF.
    description: sent.get('description')?.replaceAll('\r\n', '\n').trim() ?? '',
    hints: new Map(hints.map(({ field }) => [field, sent.get(field) ?? ''])),
  };
}

function hintIn({ hints: typed }: EnteredCorrection, field: HintField): boolean | null {
  const text = typed.get(field) ?? '';
  return text === '' ? null : text === 'true';
}

async function sendTool(
  visit: DashboardVisit,
  { url }: DashboardRequest,
  reply: Parameters<PageHandler>[2],
  {
    server,
    tool,
    entered,
    errors = [],
    notice,
    ports,
  }: {
    readonly server: { readonly id: string; readonly name: string };
    readonly tool: ToolView;
    readonly entered: EnteredCorrection;
    readonly errors?: readonly FieldError[];
    readonly notice?: string | undefined;
    readonly ports: DashboardPorts;
  },
) {
  const { organization } = visit;
  const home = `${serverPath(organization, server.name)}/tools`;
  const actors = [tool.acceptedBy, tool.correction?.by ?? null].flatMap((one) => one ?? []);
  const nameOfActor = await findActorNames(ports.db, actors);
  const mayManage = visit.may(toManage);
  const data = {
    tool,
    server: titleText(visit.server),
    tabs: serverTabs(visit, server.name, 'tools'),
    parts: toolTabs(visit, server.name, 'list'),
    notice,
    errors,
    entered,
    facts: factsOf(tool, { visit, server, nameOfActor }),
    hide: mayManage && tool.kind === 'tool' ? { action: `${home}/visibility` } : undefined,
    review: mayManage ? reviewLink(tool, home) : undefined,
    action: url.replace(/&done=\w+/, ''),
    isCorrectable: mayManage && tool.kind === 'tool' && tool.status !== 'unlisted',
    now: ports.clock.now(),
  };
  const crumbs = serverCrumbs(visit, { text: 'Tools', href: home }, { text: nameOf(tool) });
  return sendDashboardPage(reply, visit, toolPage, data, { crumbs });
}

function factsOf(
  tool: ToolView,
  {
    visit: { organization, may },
    server,
    nameOfActor,
  }: {
    readonly visit: DashboardVisit;
    readonly server: { readonly id: string; readonly name: string };
    readonly nameOfActor: (actor: string) => string;
  },
): readonly Fact[] {
  const { kind, name, audience, status, acceptedAt, acceptedBy, correction } = tool;
  const home = `${serverPath(organization, server.name)}/tools`;
  const matrix = new URLSearchParams({
    ...(kind === 'prompt' && { state: 'prompt' }),
    ...((kind === 'resource' || kind === 'template') && { state: 'resource' }),
    filter: name,
  });
  const calls = activityPath(organization, { endpoint: server.id, tool: name });
  const isSeen = may('people.read') && audience !== null;
  return [
    { label: 'Kind', text: kindWords[kind] },
    ...(isSeen
      ? [
          {
            label: 'Who can use it',
            cell: {
              kind: 'name',
              text: audienceWords(audience),
              href: `${home}/access?${matrix.toString()}`,
            } as const,
          },
        ]
      : []),
    ...(acceptedBy !== null ? [{ label: 'Accepted by', text: nameOfActor(acceptedBy) }] : []),
    ...(acceptedAt !== null
      ? [{ label: acceptedBy === null ? 'First listed' : 'Accepted', cell: timeCell(acceptedAt) }]
      : []),
    ...(correction === null
      ? []
      : [
          { label: 'Corrected by', text: nameOfActor(correction.by) },
          { label: 'Corrected', cell: timeCell(correction.at) },
        ]),
    ...(status === 'offered' ? [{ label: 'Review', text: 'Offered without review' }] : []),
    ...(kind === 'tool'
      ? [{ label: 'Calls', cell: { kind: 'name', text: 'Last calls', href: calls } as const }]
      : []),
  ];
}

/** A link to the review of the definition; `undefined` if it is accepted, or was never listed. */
function reviewLink({ status, name }: ToolView, home: string): Link | undefined {
  const state = { new: '', changed: '', rejected: 'rejected', offered: 'offered' } as const;
  if (status === 'accepted' || status === 'unlisted') return undefined;
  const query = new URLSearchParams({
    ...(state[status] && { state: state[status] }),
    filter: name,
  });
  return { text: 'Review the definition', href: `${home}/review?${query.toString()}` };
}

interface ToolPageData {
  readonly tool: ToolView;
  readonly server: string;
  readonly tabs: Tabs;
  readonly parts: Tabs;
  readonly notice: string | undefined;
  readonly errors: readonly FieldError[];
  readonly entered: EnteredCorrection;
  readonly facts: readonly Fact[];
  /** Where the tool is hidden or shown again; `undefined` for other kinds, and for people who do not manage the server. */
  readonly hide: { readonly action: string } | undefined;
  readonly review: Link | undefined;
  readonly action: string;
  readonly isCorrectable: boolean;
  readonly now: EpochSeconds;
}

function toolPage(data: ToolPageData, frame: Frame): Html {
  const { tool, server, tabs, parts, errors, facts, review, hide, now } = data;
  const { kind, name, title, changed, accepted } = tool;
  const current = changed?.seen ?? accepted;
  const shownTitle = tool.correction?.title ?? title;
  const heading = html`<div class="heading">
<div>
<h1 dir="auto"><code>${kind === 'instructions' ? `Instructions of ${server}` : name}</code></h1>
${[...hintBadge(tool), ...stateBadges(tool)].map((one) => html` ${badge(one)}`)}
${shownTitle && shownTitle !== name && html`<p class="lead" dir="auto">${shownTitle}</p>`}
</div>
${review && html`<a class="button" href="${review.href}">${review.text}</a>`}
</div>`;
  const toHide = html`${hiddenField('name', name)}${hiddenField('hidden', String(!tool.isHidden))}${hiddenField('back', 'one')}<button class="quiet switch" role="switch" aria-checked="${String(!tool.isHidden)}">Offered<span class="unseen"> ${name}</span></button>`;
  const content = html`${heading}
${tabNavigation(tabs)}
${partNavigation(parts)}
${errorSummary(errors)}
${statusNotice(data.notice)}
${factList(facts, now)}
${hide && postForm(frame, { action: hide.action }, html`<div class="actions">${toHide}</div>`)}
${data.isCorrectable && correctionSection(data, frame)}
<section class="section" aria-labelledby="definition-heading">
<h2 id="definition-heading">What the server says</h2>
${current === null ? html`<p class="help">The server has not listed it so far.</p>` : definitionList(current)}
</section>`;
  return layout({ title: nameOf(tool), width: 'text' }, frame, content);
}

const hintChoices = [
  { value: '', text: 'As the server says' },
  { value: 'true', text: 'Yes' },
  { value: 'false', text: 'No' },
];

function correctionSection(data: ToolPageData, frame: Frame): Html {
  const { tool, entered, errors, action } = data;
  const parts = definitionParts(tool.changed?.seen ?? tool.accepted ?? '');
  const said = (member: string) => parts.find(({ name }) => name === member)?.text;
  const fields = html`<div class="beside-server">
${saidBeside(
  said('title'),
  textField({
    name: 'title',
    label: 'Title',
    value: entered.title,
    error: errorOf(errors, 'title'),
    optional: 'unmarked',
    attributes: html`maxlength="200" autocomplete="off"`,
  }),
)}
${saidBeside(
  said('description'),
  textArea({
    name: 'description',
    label: 'Description',
    value: entered.description,
    rows: 6,
    error: errorOf(errors, 'description'),
  }),
)}
${hints.map(({ field, label, help }) => {
  const options = hintChoices.map(({ value, text }) => {
    return { value, text, isChosen: value === (entered.hints.get(field) ?? '') };
  });
  return saidBeside(
    hintText(tool.hints?.[field]),
    selectField({ name: field, label, help, options }),
  );
})}
</div>
<div class="actions"><button class="primary">Save correction</button>${tool.correction && html`<button name="step" value="remove">Remove correction</button>`}</div>`;
  return html`<section class="section" aria-labelledby="correction-heading">
<h2 id="correction-heading">What assistants see</h2>
<p class="help">Assistants use these to decide whether to ask before a call. Leave a field empty to pass on what the server says. If the server changes the tool later, the change waits for review.</p>
${postForm(frame, { action, novalidate: true }, fields)}
</section>`;
}

function hintText(value: boolean | null | undefined): string | undefined {
  return typeof value === 'boolean' ? (value ? 'Yes' : 'No') : undefined;
}

/** A field beside the value that the server gives. */
function saidBeside(text: string | undefined, field: Html): Html {
  return html`<div class="pair">
${field}
<div class="said">
<p class="label">The server says</p>
${text === undefined ? html`<p class="help">Nothing</p>` : html`<p dir="auto">${revealed(text)}</p>`}
</div>
</div>`;
}
