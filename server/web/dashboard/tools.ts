import { diffLines } from 'diff';
import { isConflict } from '#admin/refusal';
import { serverRead, serverUpdate } from '#admin/servers';
import { toolAccept, toolList } from '#admin/tools';
import type { EpochSeconds } from '#model/clock';
import { mostKnown } from '#db/offered';
import { type ToolField, toolFields } from '#console/tool-fields';
import type { Inspection } from '#upstreams/inspect';
import { type ExplainedChoice, hiddenField, postForm, radioButtons } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  type Badge,
  badge,
  type Frame,
  layout,
  type Link,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { queryChoice, seeOther } from '#web/page-request';
import { relativeTime } from '#web/tables';
import { type Titled, titleText } from '#web/titles';
import { activityPath } from './calls.ts';
import type { DashboardGuard, FormHandler, PageHandler } from './guard.ts';
import { type ListedTool, listedTools, toolInspections } from './offered-tools.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';
import { serverCrumbs, serverPath, serverTabs } from './servers.ts';

const toRead = 'server.read';
const toManage = 'server.manage';
const notices: Readonly<Record<string, string>> = {
  accepted: 'Change accepted.',
  saved: 'Saved.',
  hidden: 'Tool hidden. Assistants no longer see it and cannot call it.',
  visible: 'Tool visible again.',
};

/** Comparing is slow, and a longer list would be of no use. */
const mostCompared = 20;
const mostListed = 500;
const mostTries = 3;

/** `/servers/{server}/tools`: the tools of a server, which of them are hidden, and how they changed since they were accepted. */
export function toolRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  guard.get('/servers/:server/tools', toRead, showTools(toolInspections(ports)));
  guard.post('/servers/:server/tools/visibility', toManage, changeVisibility);
  guard.post('/servers/:server/tools/accept', toManage, acceptChange);
  guard.post('/servers/:server/tools/rule', toManage, changeRule);
}

const showTools =
  (inspectionFor: ReturnType<typeof toolInspections>): PageHandler =>
  async (visit, request, reply, { ports }) => {
    const { organization, may } = visit;
    const { server: name = '' } = request.params;
    const at = { server: name };
    const server = await visit.perform(serverRead, at);
    // First, because what it finds is accepted or compared.
    const inspection = await inspectionFor(visit, name);
    const { items: all, changedTools } = await visit.perform(toolList, at);
    const items = all.filter(({ kind, status }) => kind === 'tool' && status !== 'unlisted');
    const others = items.flatMap((tool) => (tool.changed ? [{ ...tool, ...tool.changed }] : []));
    const home = serverPath(organization, name);
    const mayManage = may('server.manage');
    const tools = listedTools(inspection, items, server.hiddenTools);
    const data = {
      heading: visit.server,
      tabs: serverTabs(visit, name, 'tools'),
      notice: queryChoice(request, 'done', notices),
      problem: inspection && problemOf(inspection, home, mayManage),
      home: `${home}/tools`,
      callsOf: (tool: string) => activityPath(organization, { endpoint: server.id, tool }),
      changed: others.slice(0, mostCompared).map((tool) => {
        const { name: changedName, digest, changedAt, accepted, seen } = tool;
        return { name: changedName, digest, changedAt, lines: changedLines(accepted ?? '', seen) };
      }),
      more: others.slice(mostCompared).length,
      tools: tools.slice(0, mostListed),
      unlisted: tools.slice(mostListed).length,
      isFull: items.length >= mostKnown,
      changedTools,
      choices: [
        {
          value: 'flag',
          text: 'Report the change',
          help: 'On this page and in the audit log. The tool can still be called.',
          isChosen: changedTools === 'flag',
        },
        {
          value: 'withhold',
          text: 'Block until approved',
          help: 'Assistants neither see nor call the tool until you accept the change.',
          isChosen: changedTools === 'withhold',
        },
      ],
      mayManage,
      now: ports.clock.now(),
    };
    const crumbs = serverCrumbs(visit, { text: 'Tools' });
    return sendDashboardPage(reply, visit, toolsPage, data, { crumbs });
  };

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
  return seeOther(reply, `${serverPath(organization, server)}/tools?done=${done}`);
};

const acceptChange: FormHandler = async (visit, sent, request, reply) => {
  const { organization } = visit;
  const { server = '' } = request.params;
  const tools = [{ name: sent.get('name') ?? '', digest: sent.get('digest') ?? '' }];
  await visit.perform(toolAccept, { server, tools });
  const next = `${serverPath(organization, server)}/tools?done=accepted`;
  return seeOther(reply, next);
};

const changeRule: FormHandler = async (visit, sent, request, reply) => {
  const { organization } = visit;
  const { server = '' } = request.params;
  const changedTools = sent.get('changedTools');
  await visit.perform(serverUpdate, { server, changedTools });
  const next = `${serverPath(organization, server)}/tools?done=saved`;
  return seeOther(reply, next);
};

/** Why the list is not the current one, and what to do about it. */
function problemOf(inspection: Inspection, home: string, mayManage: boolean): Problem | undefined {
  if (inspection.outcome === 'connected') return undefined;
  if (inspection.outcome === 'personal') {
    const link = { text: 'Connect your account', href: `${home}/account` };
    return { text: 'Connect your account to see the current tools.', link };
  }
  const reason = mayManage ? ` ${inspection.reason}` : '';
  const text = `The current list could not be loaded.${reason} The tools below were seen last.`;
  return { text, link: undefined };
}

interface Problem {
  readonly text: string;
  readonly link: Link | undefined;
}

/** The tools of a server, and what happens to those that change. */
interface ToolsPageData {
  readonly heading: Titled;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  readonly problem: Problem | undefined;
  readonly home: string;
  /** The last calls of a tool: of all callers, or of the person who looks. */
  readonly callsOf: (tool: string) => string;
  /** Changed tools, with the lines that differ. */
  readonly changed: readonly ChangedTool[];
  /** How many more tools changed. */
  readonly more: number;
  readonly tools: readonly ListedTool[];
  /** How many more tools there are. */
  readonly unlisted: number;
  /** Whether any other tool of this server is blocked, because it has too many. */
  readonly isFull: boolean;
  readonly changedTools: 'flag' | 'withhold';
  readonly choices: readonly ExplainedChoice[];
  readonly mayManage: boolean;
  readonly now: EpochSeconds;
}

interface ChangedTool {
  readonly name: string;
  readonly digest: string;
  readonly changedAt: EpochSeconds;
  readonly lines: readonly { readonly sign: '+' | '−' | ' '; readonly text: string }[];
}

/** The tools of a server, with those that changed first. */
function toolsPage(data: ToolsPageData, frame: Frame): Html {
  const { heading, tabs, problem, changed, more, isFull, mayManage } = data;
  const lead =
    'An assistant follows what a tool’s description says. Latchkey accepts each description when it first sees the tool, and reports every later change here.';
  const content = html`${pageHeading({ heading, lead })}
${tabNavigation(tabs)}
${statusNotice(data.notice)}
${problem && problemNotice(problem)}
${isFull && problemNotice({ text: fullText, link: undefined })}
${changed.map((tool) => changedTool(tool, data, frame))}
${more > 0 && html`<p>${more === 1 ? 'One more tool has' : `${more} more tools have`} changed. Accept some of the changes above to see the rest.</p>`}
${toolsSection(data, frame)}
${mayManage && changeRuleSection(data, frame)}`;
  return layout({ title: `Tools of ${titleText(heading)}`, width: 'text' }, frame, content);
}

const fullText = `This server has listed ${mostKnown.toLocaleString('en')} tools, as many as Latchkey can compare. Assistants neither see nor call any others. A tool that the server no longer lists is forgotten after 30 days.`;

function problemNotice({ text, link }: Problem): Html {
  return html`<div class="notice warning" role="status">
<p dir="auto">${text}</p>
${link && html`<p><a class="button" href="${link.href}">${link.text}</a></p>`}
</div>`;
}

function toolsSection(data: ToolsPageData, frame: Frame): Html {
  const { tools, unlisted, problem } = data;
  if (tools.length === 0) {
    const text = problem ? 'No tools seen yet.' : 'This server has no tools.';
    return html`<div class="empty"><p>${text}</p></div>`;
  }
  return html`<section class="section" aria-labelledby="tools-heading">
<h2 id="tools-heading">Tools</h2>
<ul class="rows">
${tools.map((tool, index) => toolRow(tool, `tool-${index}`, data, frame))}
</ul>
${unlisted > 0 && html`<p>${unlisted} more are not shown.</p>`}
</section>`;
}

function toolRow(tool: ListedTool, id: string, data: ToolsPageData, frame: Frame): Html {
  const { name, title, description, isHidden } = tool;
  const change = html`${hiddenField('name', name)}${hiddenField('hidden', String(!isHidden))}<button class="quiet switch" role="switch" aria-checked="${String(isHidden)}">Hide<span class="unseen"> ${name}</span></button>`;
  return html`<li id="${id}">
<div>
<p><code dir="auto">${name}</code>${badgesOf(tool, data.changedTools).map((one) => html` ${badge(one)}`)}</p>
${title && title !== name && html`<p dir="auto">${title}</p>`}
${description && html`<p class="help described" dir="auto">${description.slice(0, mostDescribed)}</p>`}
${argumentList(tool)}
<p><a href="${data.callsOf(name)}">Last calls<span class="unseen"> of ${name}</span></a></p>
</div>
${data.mayManage && postForm(frame, { action: `${data.home}/visibility` }, change)}
</li>`;
}

const mostDescribed = 2000;

function badgesOf(
  { isReadOnly, isHidden, isChanged, isOffered }: ListedTool,
  changedTools: 'flag' | 'withhold',
): readonly Badge[] {
  return [
    isReadOnly ? { text: 'Read-only', tone: 'plain' } : { text: 'Write', tone: 'care' },
    ...(isHidden ? [{ text: 'Hidden', tone: 'plain' } as const] : []),
    ...(isChanged ? [changedTools === 'withhold' ? blockedBadge : changedBadge] : []),
    ...(isOffered === false ? [{ text: 'Not offered now', tone: 'plain' } as const] : []),
  ];
}

const changedBadge = { text: 'Changed', tone: 'care' } as const;
const blockedBadge = { text: 'Changed, blocked', tone: 'bad' } as const;

function argumentList(tool: ListedTool): Html {
  const fields = toolFields(tool);
  if (fields.length === 0) return html`<p class="help">No arguments</p>`;
  return html`<details>
<summary>${fields.length === 1 ? '1 argument' : `${fields.length} arguments`}</summary>
<dl class="facts">
${fields.map(
  ({ name, kind, options, required, description }) =>
    html`<div>
<dt><code dir="auto">${name}</code> ${kindWords(kind, options)}${!required && ', optional'}</dt>
<dd dir="auto">${description.slice(0, mostDescribed)}</dd>
</div>`,
)}
</dl>
</details>`;
}

function changedTool(tool: ChangedTool, { home, mayManage, now }: ToolsPageData, frame: Frame) {
  const { name, digest, changedAt, lines } = tool;
  const accept = html`${hiddenField('name', name)}${hiddenField('digest', digest)}
<div class="actions"><button>Accept the change of ${name}</button></div>`;
  return html`<section class="section" aria-labelledby="tool-${digest}">
<h2 id="tool-${digest}">
<code dir="auto">${name}</code> ${badge(changedBadge)}
</h2>
<p>Changed ${relativeTime(changedAt, now)}. Lines with − were removed, lines with + were added.</p>
<pre class="change">
${lines.map(
  ({ sign, text }) =>
    html`<span class="${sign === '+' ? 'added' : sign === '−' && 'gone'}">${sign} ${text}</span>`,
)}</pre>
${mayManage && postForm(frame, { action: `${home}/accept` }, accept)}
</section>`;
}

function changeRuleSection({ home, choices }: ToolsPageData, frame: Frame): Html {
  const rule = radioButtons({
    name: 'changedTools',
    legend: 'Action',
    options: choices,
  });
  const fields = html`${rule}
<div class="actions"><button class="primary">Save</button></div>`;
  return html`<section class="section" aria-labelledby="rule-heading">
<h2 id="rule-heading">When a tool changes</h2>
${postForm(frame, { action: `${home}/rule` }, fields)}
</section>`;
}

function kindWords(kind: ToolField['kind'], options: readonly string[]): string {
  if (kind === 'choice') return `one of ${options.slice(0, mostOptions).join(', ')}`;
  return kind === 'json' ? 'JSON' : kind;
}

const mostOptions = 12;

/** A line of two texts held side by side: in both, only in the first, or only in the second. */
interface ChangedLine {
  readonly sign: '+' | '−' | ' ';
  readonly text: string;
}

/** Longer comparisons are useless and too slow for a page. */
const mostEdits = 300;

/** The differences between two texts, by lines. Texts with little in common are shown one after the other. */
export function changedLines(before: string, after: string): ChangedLine[] {
  const parts = diffLines(before, after, { maxEditLength: mostEdits }) ?? [
    { value: before, removed: true, added: false },
    { value: after, removed: false, added: true },
  ];
  return parts.flatMap(({ value, added, removed }) => {
    const sign = added ? '+' : removed ? '−' : ' ';
    return value
      .replace(/\n$/, '')
      .split('\n')
      .map((text) => ({ sign, text }) as const);
  });
}
