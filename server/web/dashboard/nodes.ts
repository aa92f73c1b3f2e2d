import { notFound } from '#admin/refusal';
import { ownsEveryOrganization } from '#db/organizations';
import { mostSkewMs, type NodeRecord } from '#nodes/node-registry';
import { html, type Html } from '#web/html';
import { breadcrumbOf, type Frame, layout, pageHeading } from '#web/layout';
import { sendPage } from '#web/page-request';
import type { CurrentPerson, PersonGuard } from '#web/page-session';
import { type Cell, dataTable, type Table, timeCell } from '#web/tables';
import { renewedPart } from './lists.ts';
import { type LiveStreams, sendLiveStream } from './live.ts';
import { dashboardScripts } from './page.ts';
import type { DashboardOptions } from './ports.ts';

const path = '/nodes';

/**
 * `/nodes`: the processes that share the database, and a stream that announces when one of them starts, stops or fails. Only people who own
 * every organization can open them; for others, they do not exist.
 */
export function nodeRoutes(
  guard: PersonGuard<DashboardOptions>,
  { ports }: DashboardOptions,
  streams: LiveStreams,
): void {
  const { db, clock, listNodes } = ports;
  if (!listNodes) return;
  const isAllowed = ({ user }: CurrentPerson) => ownsEveryOrganization(db, user.id);

  guard.get(path, async (person, _request, reply) => {
    if (!(await isAllowed(person))) throw notFound('page');
    const nodes = await listNodes();
    const rows = nodes.map((node) => ({
      id: node.instance,
      isOver: !node.isAlive,
      cells: cellsOf(node),
    }));
    const columns = ['Name', 'Status', 'Version', 'Started', 'Last seen', 'Clock difference'];
    const empty = { text: 'No node was seen during the last hour.' };
    const data = {
      table: { caption: 'Nodes', columns, rows, empty, now: clock.now() },
      isAlone: nodes.filter((node) => node.isAlive).length === 1,
    };
    const live = `${path}/live`;
    return sendPage(reply, nodesPage, data, { person, live, scripts: dashboardScripts() });
  });

  guard.get(`${path}/live`, async (person, _request, reply) => {
    if (!(await isAllowed(person))) throw notFound('page');
    const readState = async () => stateOf(await listNodes());
    const topic = { name: path, readState, isAllowed: () => isAllowed(person) };
    return sendLiveStream(reply, person, topic, { ports, streams });
  });
}

function isClockWrong({ clockSkewMs }: NodeRecord): boolean {
  return Math.abs(clockSkewMs) > mostSkewMs;
}

/** The state of the nodes, without the values that every heartbeat changes. */
function stateOf(nodes: readonly NodeRecord[]): string {
  return JSON.stringify(
    nodes.map((node) => [node.instance, node.isAlive, node.isAlive && isClockWrong(node)]),
  );
}

/** The clock difference in tenths of a second, rounded away from zero. All small differences look the same. */
function skewWords(skewMs: number): string {
  if (Math.abs(skewMs) < 100) return 'Less than 0.1 s';
  return `${skewMs > 0 ? '+' : '−'}${(Math.ceil(Math.abs(skewMs) / 100) / 10).toFixed(1)} s`;
}

function cellsOf(node: NodeRecord): Cell[] {
  const { name, version, startedAt, seenAt, isAlive } = node;
  const skew = skewWords(node.clockSkewMs);
  return [
    { kind: 'name', text: name },
    {
      kind: 'status',
      status: isAlive ? { text: 'Alive', tone: 'good' } : { text: 'Not seen', tone: 'bad' },
    },
    { kind: 'text', text: version },
    timeCell(startedAt),
    timeCell(seenAt),
    isClockWrong(node)
      ? { kind: 'status', status: { text: skew, tone: 'bad' }, reason: 'Synchronize its clock' }
      : { kind: 'text', text: skew },
  ];
}

/** The nodes, and whether one of them serves alone. */
interface NodesPageData {
  readonly table: Table;
  readonly isAlone: boolean;
}

function nodesPage({ table, isAlone }: NodesPageData, frame: Frame): Html {
  const lead =
    'The server processes that share one database. Nodes that stopped unexpectedly stay listed for an hour.';
  const content = html`${breadcrumbOf([{ text: 'Organizations', href: '/organizations' }, { text: 'Nodes' }])}
${pageHeading({ heading: 'Nodes', lead })}
${renewedPart(
  path,
  html`${dataTable(table)}
${isAlone && html`<p class="help">One node serves this installation. If it stops, so does the service; start a second one to prevent that.</p>`}
<p class="help">A positive clock difference means that the clock of the node is ahead of the database’s. A node whose clock differs by more than ${mostSkewMs / 1000} seconds is not ready and gets no calls.</p>`,
)}`;
  return layout({ title: 'Nodes', width: 'table' }, frame, content);
}
