import { auditExport, auditRead, type AuditEventView } from '#admin/audit';
import { findEventSentences, type SaidEvent, type SentencePart } from '#audit/event-sentences';
import { exportAudit } from '#audit/export-audit';
import { findUserByEmail } from '#db/people';
import type { Db } from '#db/transaction';
import { type Choice, selectOptions } from '#web/forms';
import { displayName, html, type Html } from '#web/html';
import { type Badge, dashboardPath, type Frame, layout, type Link, pageHeading } from '#web/layout';
import { queryText } from '#web/page-request';
import { titleMarkup } from '#web/titles';
import { dataTable, type Table, timeCell } from '#web/tables';
import { actorText } from './actors.ts';
import { unknownAction, unknownPerson, unknownTarget } from './empty-filters.ts';
import type { DashboardGuard, DashboardRequest, DashboardVisit, PageHandler } from './guard.ts';
import { exportLinks, sendDashboardPage, sendExport } from './page.ts';
import type { DashboardPorts } from './ports.ts';

const needs = 'audit.read';
const daySeconds = 86_400;

/** `/audit`: the audit log of an organization, also as a file. */
export function auditRoutes(guard: DashboardGuard): void {
  guard.get('/audit', needs, showAudit);
  guard.get('/audit/export', needs, exportAuditLog);
}

/** The filter in the URL, with a person's e-mail address resolved to the actor. */
async function asked(request: DashboardRequest, { db }: DashboardPorts) {
  const text = (name: string) => queryText(request, name)?.trim() || undefined;
  const who = text('actor');
  const user = who?.includes('@') ? await findUserByEmail(db, who) : undefined;
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
}

const showAudit: PageHandler = async (visit, request, reply, { ports, auditRetentionDays }) => {
  const { organization } = visit;
  const path = `${dashboardPath(organization)}/audit`;
  const after = queryText(request, 'after');
  const filter = await asked(request, ports);
  const input = { ...filter, ...(after && { after }) };
  const { items, next, actions } = await visit.perform(auditRead, input);
  const sentenceOf = await auditSentencesOf(organization, items, ports.db);
  const typed = (name: string) => queryText(request, name) ?? '';
  const query = (more: Record<string, string>) => {
    const names = ['actor', 'action', 'target', 'outcome', 'from', 'until'];
    const kept = names.filter((name) => typed(name) !== '').map((name) => [name, typed(name)]);
    return new URLSearchParams({ ...Object.fromEntries(kept), ...more }).toString();
  };
  const table: Table = {
    caption: 'Audit log',
    columns: ['What happened', 'When'],
    rows: items.map((event) => ({
      id: event.id,
      cells: [
        {
          kind: 'sentence',
          sentence: sentenceOf(event),
          badges: badgesOf(event),
          facts: detailsOf(event),
        },
        timeCell(event.at),
      ],
    })),
    empty: items.length === 0 ? await emptyWords(visit, request, actions, ports) : noMatch,
    now: ports.clock.now(),
  };
  const chosen = (name: string, values: readonly string[], all: string) =>
    ['', ...values].map((value) => ({
      value,
      text: value || all,
      isChosen: value === typed(name),
    }));
  const outcomeChoices = [
    { value: '', text: 'Any outcome', isChosen: typed('outcome') === '' },
    { value: 'done', text: 'Done', isChosen: typed('outcome') === 'done' },
    { value: 'refused', text: 'Denied', isChosen: typed('outcome') === 'refused' },
  ];
  const data = {
    path,
    retentionDays: auditRetentionDays,
    typed: {
      actor: typed('actor'),
      target: typed('target'),
      from: typed('from'),
      until: typed('until'),
    },
    // Includes a chosen action that does not occur, so that the form shows what it filters by.
    actions: chosen(
      'action',
      [...new Set([...actions, typed('action')])].filter(Boolean),
      'All actions',
    ),
    outcomes: outcomeChoices,
    table,
    next: next === null ? undefined : `${path}?${query({ after: next })}`,
    isFiltered: query({}) !== '',
    exports: exportLinks((format) => `${path}/export?${query({ format })}`),
  };
  return sendDashboardPage(reply, visit, auditPage, data, { crumbs: [{ text: 'Audit log' }] });
};

const noMatch = { text: 'No entries match.' } as const;

const personWords = {
  former:
    'Someone whose account was deleted is found by the actor that an entry shows under Details.',
  others: 'or an actor such as key:key_… or operator',
} as const;

/** Matches an actor that is not a person's address. */
const actorPattern = /^(?:user|client|key|agent):|^(?:operator|system|scim|anonymous)$/;

/** Why no entry matches, as far as that is known, and the filter that was probably meant. */
async function emptyWords(
  { organization }: Pick<DashboardVisit, 'organization'>,
  request: DashboardRequest,
  occurring: readonly string[],
  { db }: DashboardPorts,
): Promise<Table['empty']> {
  const typed = (name: string) => queryText(request, name)?.trim() ?? '';
  const [actor, action, target] = [typed('actor'), typed('action'), typed('target')];
  const found = [
    actor !== '' && !actorPattern.test(actor)
      ? (['actor', await unknownPerson(actor, organization, personWords, db)] as const)
      : undefined,
    action === '' ? undefined : (['action', unknownAction(action, occurring)] as const),
    target === ''
      ? undefined
      : (['target', await unknownTarget(target, organization, db)] as const),
  ];
  for (const [name, empty] of found.filter((one) => one !== undefined)) {
    if (!empty) continue;
    const { text, meant } = empty;
    if (meant === undefined) return { text };
    const query = new URL(request.url, 'http://localhost').searchParams;
    query.set(name, meant);
    query.delete('after');
    const href = `${dashboardPath(organization)}/audit?${query.toString()}`;
    return { text, action: { text: `Show the entries of ${displayName(meant, 60)}`, href } };
  }
  return noMatch;
}

const exportAuditLog: PageHandler = async (visit, request, reply, { ports }) => {
  const { organization } = visit;
  const format = queryText(request, 'format') === 'csv' ? 'csv' : 'jsonl';
  const file = { name: `audit-${organization}`, format, now: ports.clock.now() } as const;
  // Nothing is exported, so the audit log gets no entry.
  if (request.method === 'HEAD') return sendExport(reply, file);
  const filter = await asked(request, ports);
  await visit.perform(auditExport, { ...filter, format });
  return sendExport(reply, {
    ...file,
    pieces: () => exportAudit({ ...filter, organization }, format, ports),
  });
};

/**
 * Returns a function that writes the sentence of an entry, with the current names and titles of its actor and target,
 * or else their ids.
 */
export async function auditSentencesOf(
  organization: string,
  events: readonly SaidEvent[],
  db: Db,
): Promise<(event: SaidEvent) => Html> {
  const sentenceOf = await findEventSentences(organization, events, db);
  return (event) => {
    const { actor, verb, what } = sentenceOf(event);
    return html`<strong dir="auto">${actorText(actor)}</strong> ${verb}${what.length > 0 && ' '}${what.map(partMarkup)}`;
  };
}

function partMarkup(part: SentencePart): Html | string {
  if (typeof part === 'string') return part;
  if (part.title !== undefined) return html`<strong>${titleMarkup(part)}</strong>`;
  return html`<strong dir="auto">${displayName(part.name) || 'unknown'}</strong>`;
}

function badgesOf({ outcome, times }: AuditEventView): readonly Badge[] {
  return [
    ...(outcome === 'refused' ? [{ text: 'Denied', tone: 'bad' } as const] : []),
    ...(times > 1 ? [{ text: `${times} times`, tone: 'plain' } as const] : []),
  ];
}

/** The entry as it is stored. */
function detailsOf({ id, actor, action, target, address, requestId }: AuditEventView) {
  const facts = {
    Action: action,
    Actor: actor,
    Target: target,
    Address: address,
    Request: requestId,
  };
  return [...Object.entries(facts), ['Entry', id] as const].flatMap(([label, text]) =>
    text === null ? [] : [{ label, text }],
  );
}

/** The requested part of the audit log. */
interface AuditPageData {
  /** Path of the page, without a query. */
  readonly path: string;
  /** How many days entries are kept; `undefined` means forever. */
  readonly retentionDays: number | undefined;
  /** The filter as it was entered; days as `2026-05-03`. */
  readonly typed: Readonly<Record<'actor' | 'target' | 'from' | 'until', string>>;
  readonly actions: readonly Choice[];
  readonly outcomes: readonly Choice[];
  readonly isFiltered: boolean;
  readonly table: Table;
  /** A link to older entries. */
  readonly next: string | undefined;
  readonly exports: readonly Link[];
}

/** The audit log of an organization, with a filter and a download. */
function auditPage(data: AuditPageData, frame: Frame): Html {
  const { path, retentionDays, typed, actions, outcomes, next, exports } = data;
  const lead =
    retentionDays === undefined
      ? 'A record of what happened here. Entries cannot be edited. The operator sets how long they are kept.'
      : `A record of what happened here. Entries cannot be edited. The operator keeps them for ${retentionDays} days.`;
  const content = html`${pageHeading({ heading: 'Audit log', lead })}
<form class="filter many" method="get" action="${path}" role="search">
<label class="unseen" for="actor">E-mail address</label>
<input id="actor" name="actor" value="${typed.actor}" placeholder="E-mail address" autocomplete="off">
<label class="unseen" for="action">Action</label>
<select id="action" name="action">
${selectOptions(actions)}
</select>
<label class="unseen" for="target">ID of a server, key or person</label>
<input id="target" name="target" value="${typed.target}" placeholder="ID of a server, key or person" autocomplete="off">
<label class="unseen" for="outcome">Outcome</label>
<select id="outcome" name="outcome">
${selectOptions(outcomes)}
</select>
<div class="days"><label class="day" for="from">From <input id="from" name="from" type="date" value="${typed.from}"></label> <label class="day" for="until">To <input id="until" name="until" type="date" value="${typed.until}"></label> <button>Apply</button>${data.isFiltered && html` <a href="${path}">Clear</a>`}</div>
</form>
${dataTable(data.table)}
<nav class="pager" aria-label="Pages and export">
${next && html`<a class="button" rel="next" href="${next}">Older</a>`}
${exports.map(({ text, href }) => html`<a class="button" href="${href}">${text}</a>`)}
</nav>`;
  return layout({ title: 'Audit log', width: 'table' }, frame, content);
}
