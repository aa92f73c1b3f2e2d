import { mayDo, type OrganizationOperation, type Permission } from '#admin/operation';
import { operations } from '#admin/operations';
import { listAuditEvents, type AuditEvent } from '#db/audit';
import { findMember } from '#db/people';
import type { Organization } from '#db/organizations';
import type { EpochSeconds } from '#model/clock';
import type { Role } from '#model/roles';
import { html, type Html } from '#web/html';
import { type Badge, dashboardPath } from '#web/layout';
import { dataTable, type Table, timeCell } from '#web/tables';
import { auditSentencesOf } from './audit.ts';
import type { DashboardPorts } from './ports.ts';

// Requests that were denied lately, as the overview shows them. An entry of the audit log has no reason, so what is said of it follows from
// who acted.

/** A denied request. */
interface RefusedEvent {
  readonly at: EpochSeconds;
  readonly sentence: Html;
  readonly badge: Badge;
}

const mostShown = 5;

const badges = {
  forbidden: { text: 'Not allowed', tone: 'bad' },
  signIn: { text: 'Sign-in failed', tone: 'care' },
  impossible: { text: 'Not possible', tone: 'plain' },
} as const satisfies Readonly<Record<string, Badge>>;

const permissions = new Map<string, Permission>(
  operations
    .filter((one): one is OrganizationOperation => one.within === 'organization')
    // A role alone does not open what is for auditors.
    .filter(({ isForAuditors }) => isForAuditors !== true)
    .map(({ name, permission }) => [name, permission]),
);

/** What a refusal was about. `role` is that of the person who acted, if they are a member. */
export function refusalBadge(
  { actor, action }: Pick<AuditEvent, 'actor' | 'action'>,
  role: Role | undefined,
): Badge {
  if (action.startsWith('sign-in')) return badges.signIn;
  const permission = permissions.get(action);
  const isEntitled =
    actor === 'operator' ||
    (permission !== undefined && role !== undefined && mayDo(role, permission));
  return isEntitled ? badges.impossible : badges.forbidden;
}

/** The last denied requests, newest first. */
export async function readRefusals(
  { id, name: organization }: Pick<Organization, 'id' | 'name'>,
  { db }: Pick<DashboardPorts, 'db'>,
): Promise<RefusedEvent[]> {
  const wanted = { organization, outcome: 'refused', limit: mostShown } as const;
  const found = await listAuditEvents(db, wanted);
  const events = found.map(({ at, actor, action, target = null, outcome }) => {
    return { at, actor, action, target, outcome };
  });
  const sentenceOf = await auditSentencesOf(organization, events, db);
  const roles = new Map<string, Role | undefined>();
  for (const actor of new Set(events.map((event) => event.actor))) {
    const userId = /^user:(.+)$/.exec(actor)?.[1];
    if (userId !== undefined) roles.set(actor, (await findMember(db, id, userId))?.role);
  }
  return events.map((event) => ({
    at: event.at,
    sentence: sentenceOf(event),
    badge: refusalBadge(event, roles.get(event.actor)),
  }));
}

/** The section of the overview; nothing without refusals. */
export function refusalSection(
  organization: string,
  events: readonly RefusedEvent[],
  now: EpochSeconds,
): Html | undefined {
  if (events.length === 0) return undefined;
  const table: Table = {
    caption: 'Requests that were denied recently',
    columns: ['What happened', 'When'].map((text) => ({ text })),
    rows: events.map(({ at, sentence, badge }, place) => ({
      id: `refusal-${place}`,
      cells: [{ kind: 'sentence', sentence, badges: [badge], facts: [] }, timeCell(at)],
    })),
    empty: { text: '' },
    now,
  };
  return html`<section class="section" aria-labelledby="refusals-heading">
<h2 id="refusals-heading">Denied recently</h2>
<p class="help"><strong>${badges.forbidden.text}</strong>: the role or the credential does not permit it. <strong>${badges.impossible.text}</strong>: permitted in general, but this request had a mistake, such as a mistyped or taken name, or broke a rule.</p>
${dataTable(table)}
<p><a href="${dashboardPath(organization)}/audit?outcome=refused">View all denied requests</a></p>
</section>`;
}
