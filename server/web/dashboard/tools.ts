import { diffLines } from 'diff';

import { perform } from '#admin/operation';
import { serverUpdate } from '#admin/servers';
import { toolAccept, toolList } from '#admin/tools';
import type { EpochSeconds } from '#clock/clock';
import { type ExplainedChoice, hiddenField, postForm, radioButtons } from '#web/forms';
import { html, type Html } from '#web/html';
import {
  badge,
  type Frame,
  layout,
  pageHeading,
  statusNotice,
  tabNavigation,
  type Tabs,
} from '#web/layout';
import { queryText, seeOther } from '#web/page-request';
import { dataTable, relativeTime, type Table } from '#web/tables';
import type { DashboardGuard } from './guard.ts';
import { sendDashboardPage } from './page.ts';
import type { DashboardOptions } from './ports.ts';
import { serverCrumbs, serverPath, serverTabs } from './servers.ts';

const notices: Readonly<Record<string, string>> = {
  accepted: 'Accepted. It counts now.',
  saved: 'Saved. It counts now.',
};

/** Comparing is slow, and a longer list would be of no use. */
const mostCompared = 20;

/** `/servers/{server}/tools`: how tools changed since they were accepted, and the policy for changes. */
export function toolRoutes(guard: DashboardGuard, { ports }: DashboardOptions): void {
  const toRead = { permission: 'server.read', section: 'servers' } as const;
  const toManage = { permission: 'server.manage', section: 'servers' } as const;

  guard.get('/servers/:server/tools', toRead, async (visit, request, reply) => {
    const { organization, actor, may } = visit;
    const { server = '' } = request.params;
    const { items, changedTools } = await perform(toolList, { organization, server }, actor, ports);
    const now = ports.clock.now();
    const others = items.flatMap((tool) => (tool.changed ? [{ ...tool, ...tool.changed }] : []));
    const data = {
      name: server,
      tabs: serverTabs(visit, server, 'tools'),
      notice: notices[queryText(request, 'done') ?? ''],
      home: `${serverPath(organization, server)}/tools`,
      changed: others.slice(0, mostCompared).map(({ name, digest, changedAt, accepted, seen }) => {
        return { name, digest, changedAt, lines: changedLines(accepted, seen) };
      }),
      more: others.slice(mostCompared).length,
      table: {
        caption: 'Tools',
        columns: [{ text: 'Name' }, { text: 'Accepted' }],
        rows: items.map(({ name, acceptedAt, changed }) => ({
          id: name,
          cells: [
            {
              kind: 'name',
              text: name,
              badges: changed ? [changedBadge(changedTools)] : [],
            },
            { kind: 'time', at: acceptedAt, otherwise: '' },
          ] as const,
        })),
        empty: { text: 'No caller has listed its tools yet. They appear here once one does.' },
        now,
      },
      choices: [
        {
          value: 'flag',
          text: 'Show it here, and in the audit log',
          help: 'Callers go on using it.',
          isChosen: changedTools === 'flag',
        },
        {
          value: 'withhold',
          text: 'Also withhold it until the change is accepted',
          help: 'Until then it can be neither seen nor called.',
          isChosen: changedTools === 'withhold',
        },
      ],
      mayManage: may('server.manage'),
      now,
    };
    const crumbs = serverCrumbs(organization, server, { text: 'Tools' });
    return sendDashboardPage(reply, visit, toolsPage, data, { crumbs });
  });

  guard.post('/servers/:server/tools/accept', toManage, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '' } = request.params;
    const tools = [{ name: sent.get('name') ?? '', digest: sent.get('digest') ?? '' }];
    await perform(toolAccept, { organization, server, tools }, actor, ports);
    const next = `${serverPath(organization, server)}/tools?done=accepted`;
    return seeOther(reply, next);
  });

  guard.post('/servers/:server/tools/rule', toManage, async (visit, sent, request, reply) => {
    const { organization, actor } = visit;
    const { server = '' } = request.params;
    const changedTools = sent.get('changedTools');
    await perform(serverUpdate, { organization, server, changedTools }, actor, ports);
    const next = `${serverPath(organization, server)}/tools?done=saved`;
    return seeOther(reply, next);
  });
}

function changedBadge(rule: 'flag' | 'withhold') {
  return rule === 'withhold'
    ? ({ text: 'changed, closed', tone: 'bad' } as const)
    : ({ text: 'changed', tone: 'care' } as const);
}

/** The tools of a server, and what happens to those that change. */
interface ToolsPageData {
  readonly name: string;
  readonly tabs: Tabs;
  readonly notice: string | undefined;
  readonly home: string;
  /** Changed tools, with the lines that differ. */
  readonly changed: readonly ChangedTool[];
  /** How many more tools changed. */
  readonly more: number;
  readonly table: Table;
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

/** The tools of a server as accepted, and those that changed. */
function toolsPage(data: ToolsPageData, frame: Frame): Html {
  const { name, tabs, changed, more, mayManage } = data;
  const lead =
    'What a server says of a tool is an order to the assistant that reads it. Each tool is accepted as it is first listed; one that turns into another behind its name is shown here.';
  const content = html`${pageHeading({ heading: name, lead })}
${tabNavigation(tabs)}
${statusNotice(data.notice)}
${changed.map((tool) => changedTool(tool, data, frame))}
${more > 0 && html`<p>${more === 1 ? 'One more tool has' : `${more} more tools have`} changed: the lines that differ are shown here once some of these are accepted.</p>`}
${dataTable(data.table)}
${mayManage && changeRuleSection(data, frame)}`;
  return layout({ title: `Tools of ${name}`, width: 'text' }, frame, content);
}

function changedTool(tool: ChangedTool, { home, mayManage, now }: ToolsPageData, frame: Frame) {
  const { name, digest, changedAt, lines } = tool;
  const accept = html`${hiddenField('name', name)}${hiddenField('digest', digest)}
<div class="actions"><button>Accept ${name} as it is now</button></div>`;
  return html`<section class="section" aria-labelledby="tool-${digest}">
<h2 id="tool-${digest}">
<code dir="auto">${name}</code> ${badge({ text: 'changed', tone: 'care' })}
</h2>
<p>Seen ${relativeTime(changedAt, now)}. Lines with − are gone, lines with + are new.</p>
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
    legend: 'What happens to it',
    options: choices,
  });
  const fields = html`${rule}
<div class="actions"><button class="primary">Save</button></div>`;
  return html`<section class="section" aria-labelledby="rule-heading">
<h2 id="rule-heading">When a tool changes</h2>
${postForm(frame, { action: `${home}/rule` }, fields)}
</section>`;
}

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
