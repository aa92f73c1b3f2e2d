import type { FastifyInstance } from 'fastify';
import { notFound } from '#admin/refusal';
import { ownsEveryOrganization } from '#db/organizations';
import { mostSkewMs, type NodeRecord } from '#nodes/node-registry';
import { html, type Html } from '#web/html';
import { type Frame, layout, pageHeading } from '#web/layout';
import { sendPage } from '#web/page-request';
import { currentPersonOf, signedIn } from '#web/page-session';
import { type Cell, dataTable, type Table } from '#web/tables';
import type { DashboardOptions } from './ports.ts';

/** `/nodes`: the processes that share the database. For other people than the owner of all organizations, it does not exist. */
export function nodeRoutes(app: FastifyInstance, { base, ports }: DashboardOptions): void {
  const { db, clock, listNodes } = ports;
  if (!listNodes) return;
  const currentPerson = currentPersonOf(base, ports);

  app.get('/nodes', async (request, reply) => {
    const person = await signedIn(request, reply, currentPerson);
    if (!person) return reply;
    if (!(await ownsEveryOrganization(db, person.user.id))) throw notFound('page');
    const rows = (await listNodes()).map((node) => ({
      id: node.instance,
      isOver: !node.isAlive,
      cells: cellsOf(node),
    }));
    const columns = ['Name', 'State', 'Version', 'Started', 'Last seen', 'Clock difference'].map(
      (text) => ({ text }),
    );
    const empty = { text: 'No node was seen during the last hour.' };
    const table = { caption: 'Nodes', columns, rows, empty, now: clock.now() };
    return sendPage(reply, nodesPage, table, { person });
  });
}

function cellsOf({ name, version, startedAt, seenAt, clockSkewMs, isAlive }: NodeRecord): Cell[] {
  const isClockWrong = Math.abs(clockSkewMs) > mostSkewMs;
  const skew = `${clockSkewMs} ms`;
  return [
    { kind: 'text', text: name },
    {
      kind: 'status',
      status: isAlive ? { text: 'Live', tone: 'good' } : { text: 'Gone', tone: 'bad' },
    },
    { kind: 'text', text: version },
    { kind: 'time', at: startedAt, otherwise: '' },
    { kind: 'time', at: seenAt, otherwise: '' },
    isClockWrong
      ? { kind: 'status', status: { text: skew, tone: 'bad' }, reason: 'Synchronize its clock' }
      : { kind: 'text', text: skew },
  ];
}

function nodesPage(table: Table, frame: Frame): Html {
  const content = html`${pageHeading({ heading: 'Nodes' })}
<p class="lead">The processes that share the database and were seen during the last hour. A clock that differs by more than ${mostSkewMs / 1000} seconds from the database’s keeps a node from serving.</p>
${dataTable(table)}`;
  return layout({ title: 'Nodes', width: 'table' }, frame, content);
}
