import { isConflict } from '#admin/refusal';
import { serverRead, serverUpdate } from '#admin/servers';
import { toolList, type ToolView } from '#admin/tools';
import { mostKnown } from '#db/offered';
import type { Inspection } from '#upstreams/inspect';
import { type ExplainedChoice, hiddenField, postForm, radioButtons } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  badge,
  type Frame,
  layout,
  type Link,
  pageHeading,
  type Problem,
  problemNotice,
  statusNotice,
  tabNavigation,
} from '#web/layout';
import { queryChoice, seeOther } from '#web/page-request';
import { listFilter, pager } from '#web/tables';
import { titleText } from '#web/titles';
import { activityPath } from './calls.ts';
import { sendExclusion } from './closed-server.ts';
import type {
  DashboardGuard,
  DashboardRequest,
  DashboardVisit,
  FormHandler,
  PageHandler,
} from './guard.ts';
import { listQuery } from './lists.ts';
import { type ListedThing, listedThings, toolInspections } from './offered-tools.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions, DashboardPorts } from './ports.ts';
import { counted } from './questions.ts';
import { isExcluded, serverCrumbs, serverPath, serverTabs } from './server-tabs.ts';
import { partNavigation, toolPath, toolTabs } from './tool-tabs.ts';
import { argumentCount, argumentFacts } from './tool-arguments.ts';
import { usableByVisitor } from './tool-visitor.ts';
import { audienceWords, hintBadge, kindWords, nameOf, stateBadges } from './tool-words.ts';

const toRead = 'server.read';
const toManage = 'server.manage';
const notices: Readonly<Record<string, string>> = {
  saved: 'Saved.',
  hidden: 'Tool hidden. Assistants no longer see it and cannot call it.',
  visible: 'Tool visible again.',
};

const shape = {
  states: [
    { value: '', text: 'Everything' },
    { value: 'tool', text: 'Tools' },
    { value: 'prompt', text: 'Prompts' },
    { value: 'template', text: 'Resource templates' },
    { value: 'restricted', text: 'Restricted to groups' },
    { value: 'hidden', text: 'Hidden' },
    { value: 'corrected', text: 'Corrected' },
  ],
  columns: ['Name'],
  usual: { sort: '', order: 'asc' },
} as const;
type State = (typeof shape.states)[number]['value'];

const inState: Readonly<Record<State, (thing: ListedThing) => boolean>> = {
  '': () => true,
  tool: ({ kind }) => kind === 'tool',
  prompt: ({ kind }) => kind === 'prompt',
  template: ({ kind }) => kind === 'template' || kind === 'resource',
  restricted: ({ audience }) => audience?.access === 'groups',
  hidden: ({ isHidden }) => isHidden,
  corrected: ({ correction }) => correction !== null,
};

const mostTries = 3;

/** `/servers/{server}/tools`: the definitions that a server offers, and the rules for new and changed ones. */
export function toolRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  guard.get('/servers/:server/tools', toRead, showTools(toolInspections(ports)));
  guard.post('/servers/:server/tools/visibility', toManage, changeVisibility);
  guard.post('/servers/:server/tools/rule', toManage, changePolicy);
}

const showTools =
  (inspectionFor: ReturnType<typeof toolInspections>): PageHandler =>
  async (visit, request, reply, { ports }) => {
    if (isExcluded(visit)) return sendExclusion(visit, reply, 'tools', ports);
    const data = await toolsData(visit, request, inspectionFor, ports);
    const crumbs = serverCrumbs(visit, { text: 'Tools' });
    return sendDashboardPage(reply, visit, toolsPage, data, { crumbs });
  };

/** The definitions that a server offers, and the rules for new and changed ones. */
async function toolsData(
  visit: DashboardVisit,
  request: DashboardRequest,
  inspectionFor: ReturnType<typeof toolInspections>,
  ports: DashboardPorts,
) {
  const { organization, may } = visit;
  const { server: name = '' } = request.params;
  const at = { server: name };
  const server = await visit.perform(serverRead, at);
  // The inspection comes first, because it may change what is accepted.
  const inspection = await inspectionFor(visit, name);
  const { items, changedTools, newTools } = await visit.perform(toolList, at);
  const mayUse = await usableByVisitor(visit, name, ports);
  const mayManage = may('server.manage');
  const known = items.filter((one) => mayUse(one) && (one.isHidden || one.kind !== 'resource'));
  const things = listedThings(inspection, known, { isWhole: mayManage, mayUse });
  const query = listQuery(request, shape);
  const { filter, state, start, end } = query.part;
  const wanted = shape.states.find(({ value }) => value === state)?.value ?? '';
  const shown = things.filter((thing) => inState[wanted](thing) && matches(thing, filter));
  const home = serverPath(organization, name);
  return {
    heading: visit.server,
    tabs: serverTabs(visit, name, 'tools'),
    parts: toolTabs(visit, name, 'list'),
    notice: queryChoice(request, 'done', notices),
    problem: inspection && problemOf(inspection, home, mayManage),
    waiting: mayManage ? waitingLink(items, `${home}/tools/review`) : undefined,
    home: `${home}/tools`,
    // The last calls of a tool: those of all callers, or only those of the reader.
    callsOf: (tool: string) => activityPath(organization, { endpoint: server.id, tool }),
    pathOf: (thing: ListedThing) => toolPath(organization, name, thing),
    list: query.frame(shown.length),
    isSearchable: things.length > 5 || !query.isWhole,
    things: shown.slice(start, end),
    isEmpty: things.length === 0,
    // If so, the server has too many tools, and any other tool is blocked.
    isFull: items.length >= mostKnown,
    changedTools: choices(changedTools, changedChoices),
    newTools: choices(newTools, newChoices),
    maySeeGroups: may('people.read'),
    mayManage,
  };
}

function matches({ name, title }: ListedThing, filter: string): boolean {
  const lower = filter.toLowerCase();
  return [name, title ?? ''].some((text) => text.toLowerCase().includes(lower));
}

function waitingLink(items: readonly ToolView[], href: string): Link | undefined {
  const waiting = items.filter(({ status }) => status === 'new' || status === 'changed').length;
  if (waiting === 0) return undefined;
  return { text: `${counted(waiting, 'definition waits', 'definitions wait')} for review`, href };
}

const changedChoices = [
  {
    value: 'flag',
    text: 'Report the change',
    help: 'On the Review page, on the overview and in the audit log. It can still be used.',
  },
  {
    value: 'withhold',
    text: 'Block until accepted',
    help: 'Assistants neither see nor use it until you accept the change.',
  },
] as const;
const newChoices = [
  {
    value: 'offer',
    text: 'Offer it immediately',
    help: 'Keys and applications that may only read cannot use a new tool until you accept it as read-only.',
  },
  {
    value: 'review',
    text: 'Block until accepted',
    help: 'Assistants neither see nor use it until you accept it.',
  },
] as const;

function choices(
  chosen: string,
  all: readonly Omit<ExplainedChoice, 'isChosen'>[],
): readonly ExplainedChoice[] {
  return all.map(({ value, text, help = '' }) => {
    return { value, text, help, isChosen: value === chosen };
  });
}

const changeVisibility: FormHandler = async (visit, sent, request, reply) => {
  const { organization } = visit;
  const { server = '' } = request.params;
  const tool = sent.get('name') ?? '';
  const isHidden = sent.get('hidden') === 'true';
  for (let tries = 1; ; tries += 1) {
    const { hiddenTools: before, revision } = await visit.perform(serverRead, { server });
    const others = before.filter((name) => name !== tool);
    const hiddenTools = isHidden ? [...others, tool] : others;
    try {
      await visit.perform(serverUpdate, { server, hiddenTools, revision });
      break;
    } catch (refusal) {
      if (!isConflict(refusal) || tries === mostTries) throw refusal;
    }
  }
  const done = isHidden ? 'hidden' : 'visible';
  const isOne = sent.get('back') === 'one';
  const own = toolPath(organization, server, { kind: 'tool', name: tool });
  return seeOther(reply, isOne ? own : `${serverPath(organization, server)}/tools?done=${done}`);
};

const changePolicy: FormHandler = async (visit, sent, request, reply) => {
  const { organization } = visit;
  const { server = '' } = request.params;
  const [changedTools, newTools] = [sent.get('changedTools'), sent.get('newTools')];
  await visit.perform(serverUpdate, {
    server,
    ...(changedTools !== undefined && { changedTools }),
    ...(newTools !== undefined && { newTools }),
  });
  return seeOther(reply, `${serverPath(organization, server)}/tools?done=saved`);
};

/** Says why the list is not current, and what to do about it. */
function problemOf(inspection: Inspection, home: string, mayManage: boolean): Problem | undefined {
  if (inspection.outcome === 'connected') return undefined;
  if (inspection.outcome === 'personal') {
    const link = { text: 'Open your account', href: `${home}/account` };
    return { text: 'Connect your account or enter your key to see the current tools.', link };
  }
  const reason = mayManage ? ` ${inspection.reason}` : '';
  const text = `The current list could not be loaded.${reason} The tools below were seen last.`;
  return { text, link: undefined };
}

type ToolsPageData = Awaited<ReturnType<typeof toolsData>>;

function toolsPage(data: ToolsPageData, frame: Frame): Html {
  const { heading, tabs, parts, problem, waiting, isFull, mayManage } = data;
  const lead = mayManage
    ? 'Assistants follow the description of a tool, and use its annotations to decide whether to ask before a call.'
    : 'What you can use of this server.';
  const content = html`${pageHeading({ heading, lead })}
${tabNavigation(tabs)}
${partNavigation(parts)}
${statusNotice(data.notice)}
${waiting && html`<p class="notice warning"><a href="${waiting.href}">${waiting.text}</a></p>`}
${problem && problemNotice(problem)}
${isFull && problemNotice({ text: fullText(), link: undefined })}
${data.isSearchable && listFilter(data.list)}
${thingsList(data, frame)}
${pager(data.list)}
${mayManage && policySection(data, frame)}`;
  return layout({ title: `Tools of ${titleText(heading)}`, width: 'text' }, frame, content);
}

const fullText = () =>
  `This server has listed ${mostKnown.toLocaleString('en')} tools, as many as Latchkey can compare. Assistants neither see nor call any others. A tool that the server no longer lists is forgotten after 30 days.`;

function thingsList(data: ToolsPageData, frame: Frame): Html {
  const { things, problem, isEmpty, mayManage } = data;
  if (things.length === 0) {
    const has = mayManage
      ? 'This server has no tools.'
      : 'This server has no tools that you can use.';
    const none = problem ? 'No tools seen yet.' : has;
    return html`<div class="empty"><p>${isEmpty ? none : 'Nothing matches.'}</p></div>`;
  }
  return html`<ul class="rows">
${things.map((thing, index) => thingRow(thing, `tool-${index}`, data, frame))}
</ul>`;
}

function thingRow(thing: ListedThing, id: string, data: ToolsPageData, frame: Frame): Html {
  const { kind, name, title, description, isHidden, isOffered, audience } = thing;
  const badges = [
    ...hintBadge(thing),
    ...stateBadges(thing),
    ...(isOffered === false ? [{ text: 'No longer listed', tone: 'plain' } as const] : []),
  ];
  const isTool = kind === 'tool';
  const change = html`${hiddenField('name', name)}${hiddenField('hidden', String(!isHidden))}<button class="quiet switch" role="switch" aria-checked="${String(!isHidden)}">Offered<span class="unseen"> ${name}</span></button>`;
  return html`<li id="${id}">
<div>
<p><a href="${data.pathOf(thing)}"><code dir="auto">${nameOf(thing)}</code></a>${!isTool && html` <span class="soft">${kindWords[kind]}</span>`}${badges.map((one) => html` ${badge(one)}`)}</p>
${title && title !== name && html`<p dir="auto">${title}</p>`}
${description && html`<p class="help described" dir="auto">${description.slice(0, mostDescribed)}</p>`}
${isTool && argumentList(thing)}
<p class="help">${data.maySeeGroups && kind !== 'instructions' && html`Who can use it: <span dir="auto">${audienceWords(audience)}</span>`}${isTool && html` <a href="${data.callsOf(name)}">Last calls<span class="unseen"> of ${name}</span></a>`}</p>
</div>
${data.mayManage && isTool && postForm(frame, { action: `${data.home}/visibility` }, change)}
</li>`;
}

const mostDescribed = 2000;

function argumentList(tool: ListedThing): Html {
  const facts = argumentFacts(tool);
  if (!facts) return html`<p class="help">No arguments</p>`;
  return html`<details>
<summary>${argumentCount(tool)}</summary>
${facts}
</details>`;
}

function policySection({ home, newTools, changedTools }: ToolsPageData, frame: Frame): Html {
  const fields = html`${radioButtons({ name: 'newTools', legend: 'When the server lists something new', options: newTools })}
${radioButtons({ name: 'changedTools', legend: 'When something changes', options: changedTools })}
<div class="actions"><button class="primary">Save</button></div>`;
  return html`<section class="section" id="policy" aria-labelledby="policy-heading">
<h2 id="policy-heading">New and changed tools</h2>
${postForm(frame, { action: `${home}/rule` }, fields)}
<p class="help">Who can use a new tool is set under <a href="${home}/access#row-later">Who can use what</a>.</p>
</section>`;
}
