import { Readable } from 'node:stream';

import { auditExport, auditRead } from '#administration/audit-operations';
import { perform } from '#administration/perform';
import { exportAudit } from '#audit/export-audit';
import { queryText } from '#http/query-text';
import { dashboardPath } from '#pages/dashboard-frame';
import type { Table } from '#pages/table';
import { auditPage } from './audit-page.ts';
import type { DashboardDoor, DashboardRequest } from './dashboard-door.ts';
import type { DashboardOptions } from './dashboard-ports.ts';
import { sendDashboardPage } from './send-dashboard-page.ts';

const needs = { permission: 'audit.read', section: 'audit' } as const;
const daySeconds = 86_400;

/** `/audit`: what happened in an organization, and all of it as a file. */
export function auditRoutes(door: DashboardDoor, { ports }: DashboardOptions): void {
  /** What the URL asks for, with the address of a person as who they are. */
  const asked = async (request: DashboardRequest) => {
    const text = (name: string) => queryText(request, name)?.trim() || undefined;
    const who = text('actor');
    const user = who?.includes('@') ? await ports.users.byEmail(who) : undefined;
    const outcome = text('outcome');
    const day = (name: string, more = 0) => {
      const at = Date.parse(`${text(name) ?? ''}T00:00:00Z`);
      return Number.isNaN(at) ? undefined : at / 1000 + more;
    };
    return {
      actor: user ? `user:${user.id}` : who?.slice(0, 200),
      action: text('action')?.slice(0, 100),
      target: text('target')?.slice(0, 400),
      outcome: outcome === 'done' || outcome === 'refused' ? outcome : undefined,
      from: day('from'),
      until: day('until', daySeconds),
    } as const;
  };

  door.get('/audit', needs, async (visit, request, reply) => {
    const { organization, actor } = visit;
    const path = `${dashboardPath(organization)}/audit`;
    const after = queryText(request, 'after');
    const filter = await asked(request);
    const input = { organization, ...filter, ...(after && { after }) };
    const { items, next, actions } = await perform(auditRead, input, actor, ports);
    const people = new Set(items.map((event) => personIn(event.actor)).filter(Boolean));
    const emails = await ports.subjectNames.of('person', [...people]);
    const typed = (name: string) => queryText(request, name) ?? '';
    const query = (more: Record<string, string>) => {
      const names = ['actor', 'action', 'target', 'outcome', 'from', 'until'];
      const kept = names.filter((name) => typed(name) !== '').map((name) => [name, typed(name)]);
      return new URLSearchParams({ ...Object.fromEntries(kept), ...more }).toString();
    };
    const table: Table = {
      caption: 'Audit log',
      columns: ['What', 'Who', 'On what', 'From', 'When', 'Request'].map((text) => ({ text })),
      rows: items.map((event) => ({
        id: event.id,
        cells: [
          {
            kind: 'name',
            text: event.times > 1 ? `${event.action} × ${event.times}` : event.action,
            badges: event.outcome === 'refused' ? [{ text: 'refused', tone: 'bad' }] : [],
          },
          { kind: 'text', text: emails.get(personIn(event.actor)) ?? event.actor },
          { kind: 'text', text: event.target ?? '' },
          { kind: 'text', text: event.address ?? '' },
          { kind: 'time', at: event.at, otherwise: '' },
          event.requestId === null
            ? { kind: 'text', text: '' }
            : { kind: 'id', text: event.requestId },
        ],
      })),
      empty: { text: 'Nothing like that happened here.' },
      now: ports.clock.now(),
    };
    const chosen = (name: string, values: readonly string[], all: string) =>
      ['', ...values].map((value) => ({
        value,
        text: value || all,
        isChosen: value === typed(name),
      }));
    const data = {
      path,
      typed: {
        actor: typed('actor'),
        target: typed('target'),
        from: typed('from'),
        until: typed('until'),
      },
      actions: chosen('action', actions, 'Everything'),
      outcomes: chosen('outcome', ['done', 'refused'], 'Done and refused'),
      table,
      next: next === null ? undefined : `${path}?${query({ after: next })}`,
      exports: [
        { text: 'Export as CSV', href: `${path}/export?${query({ format: 'csv' })}` },
        { text: 'Export as JSON lines', href: `${path}/export?${query({ format: 'jsonl' })}` },
      ],
    };
    return sendDashboardPage(reply, visit, auditPage, data, { crumbs: [{ text: 'Audit log' }] });
  });

  door.get('/audit/export', needs, async ({ organization, actor }, request, reply) => {
    const format = queryText(request, 'format') === 'csv' ? 'csv' : 'jsonl';
    const filter = await asked(request);
    await perform(auditExport, { organization, ...filter, format }, actor, ports);
    const day = new Date(ports.clock.now() * 1000).toISOString().slice(0, 10);
    const type = format === 'csv' ? 'text/csv' : 'application/jsonl';
    return reply
      .headers({
        'Content-Type': `${type}; charset=utf-8`,
        'Content-Disposition': `attachment; filename="audit-${organization}-${day}.${format}"`,
        'Cache-Control': 'no-store',
        'X-Content-Type-Options': 'nosniff',
      })
      .send(Readable.from(exportAudit({ ...filter, organization }, format, ports)));
  });
}

/** The id of the person that an actor is; empty for another. */
function personIn(actor: string): string {
  return actor.startsWith('user:') ? actor.slice('user:'.length) : '';
}
