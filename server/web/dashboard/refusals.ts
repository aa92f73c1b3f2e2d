import { listAuditEvents, type AuditEvent } from '#db/audit';
import type { EpochSeconds } from '#model/clock';
import { html, type Html } from '#web/html';
import { type Badge, dashboardPath } from '#web/layout';
import { dataTable, type Table, timeCell } from '#web/tables';
import { auditSentencesOf } from './audit.ts';
import type { DashboardPorts } from './ports.ts';

// Requests that were denied recently, as the overview shows them. Only the action and target of an audit log entry tell the reason: the
// rights of the actor today can differ from those at the time.

/** A denied request. */
interface RefusedEvent {
  readonly at: EpochSeconds;
  readonly sentence: Html;
  readonly badge: Badge;
}

const mostShown = 5;

const badges = {
  signIn: { text: 'Sign-in failed', tone: 'care' },
  role: { text: 'Not allowed', tone: 'bad' },
  impossible: { text: 'Not possible', tone: 'plain' },
  other: { text: 'Denied', tone: 'bad' },
} as const satisfies Readonly<Record<string, Badge>>;

/** The meanings of the badges that need an explanation. */
const meanings: readonly (readonly [badge: Badge, meaning: string])[] = [
  [badges.role, 'the role of the person did not permit it at that time.'],
  [
    badges.impossible,
    'the operator may do everything, so the request had a mistake, such as a mistyped or taken name, or broke a rule.',
  ],
  [
    badges.other,
    'the audit log does not record the reason: the role or credential may not permit it, or the request had a mistake or broke a rule.',
  ],
];

/** The badge for a refusal, as far as its reason is recorded. */
export function refusalBadge({
  actor,
  action,
  target,
}: Pick<AuditEvent, 'actor' | 'action' | 'target'>): Badge {
  if (action.startsWith('sign-in')) return badges.signIn;
  // The target is the route of a page that the role may not open. A forged form has one, too, and is recorded in each organization of the person.
  if (target?.startsWith('/dashboard/:') && action !== 'forged-form') return badges.role;
  return actor === 'operator' ? badges.impossible : badges.other;
}

/** The last denied requests, newest first. */
export async function readRefusals(
  organization: string,
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<RefusedEvent[]> {
  const events = await listAuditEvents(db, { organization, outcome: 'refused', limit: mostShown });
  const sentenceOf = await auditSentencesOf(organization, events, db);
  return events.map((event) => ({
    at: event.at,
    sentence: sentenceOf(event),
    badge: refusalBadge(event),
  }));
}

/** The section of the overview; `undefined` without refusals. */
export function refusalSection(
  organization: string,
  events: readonly RefusedEvent[],
  now: EpochSeconds,
): Html | undefined {
  if (events.length === 0) return undefined;
  const table: Table = {
    caption: 'Requests that were denied recently',
    columns: ['What happened', 'When'],
    rows: events.map(({ at, sentence, badge }, place) => ({
      id: `refusal-${place}`,
      cells: [{ kind: 'sentence', sentence, badges: [badge], facts: [] }, timeCell(at)],
    })),
    empty: { text: '' },
    now,
  };
  const explained = meanings.filter(([badge]) => events.some((event) => event.badge === badge));
  return html`<section class="section" aria-labelledby="refusals-heading">
<h2 id="refusals-heading">Denied recently</h2>
${dataTable(table)}
${explained.length > 0 && html`<p class="help">${explained.map(([{ text }, meaning]) => html`<strong>${text}</strong>: ${meaning} `)}</p>`}
<p><a href="${dashboardPath(organization)}/audit?outcome=refused">View all denied requests</a></p>
</section>`;
}
