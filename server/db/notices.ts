import { sql } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Role } from '#model/roles';
import { readStrings } from './columns.ts';
import { readRole } from './people.ts';
import type { Schema } from './schema.ts';
import type { Db } from './transaction.ts';

// Notices about things that need attention: the people who get them, and the things that were announced.

/** How often a person gets notices by e-mail. */
export const noticeFrequencies = ['now', 'daily'] as const satisfies NoticeChoice['frequency'][];

/** The kinds of notices that a member wants, and how often. */
export type NoticeChoice = ReturnType<typeof readChoice>;

function readChoice(row: Schema['notice_choice']) {
  return {
    userId: row.person_id,
    kinds: readStrings(row.kinds),
    frequency: row.frequency,
    /** Everything that was announced until then was sent. */
    sentAt: row.sent_at ?? undefined,
  } as const;
}

export async function findNoticeChoice(
  db: Db,
  organizationId: string,
  userId: string,
): Promise<NoticeChoice | undefined> {
  const row = await db
    .selectFrom('notice_choice')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('person_id', '=', userId)
    .executeTakeFirst();
  return row && readChoice(row);
}

/** Sets the notices that a member wants; none if `choice` is `undefined`. A change keeps `sentAt`, so that nothing is sent twice. */
export async function replaceNoticeChoice(
  tx: Db,
  organizationId: string,
  userId: string,
  choice: Pick<NoticeChoice, 'kinds' | 'frequency'> | undefined,
  changedAt: EpochSeconds,
): Promise<void> {
  if (!choice) {
    await tx
      .deleteFrom('notice_choice')
      .where('organization_id', '=', organizationId)
      .where('person_id', '=', userId)
      .execute();
    return;
  }
  const columns = {
    kinds: JSON.stringify(choice.kinds),
    frequency: choice.frequency,
    changed_at: changedAt,
  };
  await tx
    .insertInto('notice_choice')
    .values({ organization_id: organizationId, person_id: userId, ...columns })
    .onConflict((conflict) =>
      conflict.columns(['organization_id', 'person_id']).doUpdateSet(columns),
    )
    .execute();
}

/** A member who wants notices. */
export interface NoticeReader extends NoticeChoice {
  readonly email: string;
  readonly role: Role;
}

/** The members of an organization who want notices. */
export async function listNoticeReaders(db: Db, organizationId: string): Promise<NoticeReader[]> {
  const rows = await db
    .selectFrom('notice_choice')
    .innerJoin('membership', (join) =>
      join
        .onRef('membership.person_id', '=', 'notice_choice.person_id')
        .onRef('membership.organization_id', '=', 'notice_choice.organization_id'),
    )
    .innerJoin('person', 'person.id', 'notice_choice.person_id')
    .selectAll('notice_choice')
    .select(['person.email', 'membership.role'])
    .where('notice_choice.organization_id', '=', organizationId)
    .orderBy('notice_choice.person_id')
    .execute();
  return rows.map((row) =>
    Object.assign(readChoice(row), { email: row.email, role: readRole(row.role) }),
  );
}

/**
 * Records that a reader was sent everything that was announced until `sentAt`.
 *
 * @returns `false` when another process has recorded a time since the reader was read
 */
export async function markNoticesSent(
  tx: Db,
  organizationId: string,
  { userId, sentAt: before }: Pick<NoticeReader, 'userId' | 'sentAt'>,
  sentAt: EpochSeconds | undefined,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('notice_choice')
    .set({ sent_at: sentAt ?? null })
    .where('organization_id', '=', organizationId)
    .where('person_id', '=', userId)
    .where('sent_at', before === undefined ? 'is' : '=', before ?? null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** The enabled organizations that are due for a look and in which a person or a webhook wants notices. */
export async function listDueLooks(
  db: Db,
  now: EpochSeconds,
  limit: number,
): Promise<{ readonly id: string; readonly name: string; readonly title: string }[]> {
  return (
    db
      .selectFrom('organization')
      .leftJoin('notice_look', 'notice_look.organization_id', 'organization.id')
      .select(['organization.id', 'organization.name', 'organization.title'])
      .where('organization.disabled_at', 'is', null)
      .where((where) =>
        where.or([
          where('notice_look.next_at', 'is', null),
          where('notice_look.next_at', '<=', now),
        ]),
      )
      .where((where) =>
        where.or([
          where.exists(
            where
              .selectFrom('notice_choice')
              .select('notice_choice.person_id')
              .whereRef('notice_choice.organization_id', '=', 'organization.id'),
          ),
          where.exists(
            where
              .selectFrom('webhook')
              .select('webhook.id')
              .whereRef('webhook.organization_id', '=', 'organization.id')
              .where('webhook.disabled_at', 'is', null)
              .where('webhook.actions', 'like', noticeActions),
          ),
        ]),
      )
      // Organizations that wait longest come first, so that a large number of them delays all equally.
      .orderBy(sql`coalesce(notice_look.next_at, 0)`)
      .orderBy('organization.id')
      .limit(limit)
      .execute()
  );
}

/** Matches the actions of webhooks that name notices, not of those for every event: notices become events only if a webhook names them. */
const noticeActions = '%"attention.%';

export async function hasNoticeWebhook(db: Db, organizationId: string): Promise<boolean> {
  const found = await db
    .selectFrom('webhook')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('disabled_at', 'is', null)
    .where('actions', 'like', noticeActions)
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
}

/** Claims the look at an organization. @returns `true` for one process only, until `nextAt` */
export async function claimLook(
  db: Db,
  organizationId: string,
  { now, nextAt }: { readonly now: EpochSeconds; readonly nextAt: EpochSeconds },
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('notice_look')
    .values({ organization_id: organizationId, next_at: nextAt })
    .onConflict((conflict) =>
      conflict
        .column('organization_id')
        .doUpdateSet({ next_at: nextAt })
        .where('notice_look.next_at', '<=', now),
    )
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}

export interface NoticedThing {
  readonly kind: string;
  readonly subject: string;
  readonly firstSeenAt: EpochSeconds;
  readonly announcedAt: EpochSeconds | undefined;
}

/** How old `last_seen_at` may become while a thing is there. */
const seenPrecisionSeconds = 3600;

/**
 * Records which things are there now, and forgets things that have been gone for `forgetSeconds`. At most `most` are remembered.
 *
 * @returns the remembered things that are there now
 */
export async function noteThings(
  tx: Db,
  organizationId: string,
  things: readonly Pick<NoticedThing, 'kind' | 'subject'>[],
  {
    now,
    forgetSeconds,
    most,
  }: { readonly now: EpochSeconds; readonly forgetSeconds: number; readonly most: number },
): Promise<NoticedThing[]> {
  const rows = await tx
    .selectFrom('noticed_thing')
    .select(['kind', 'subject', 'first_seen_at', 'last_seen_at', 'announced_at'])
    .where('organization_id', '=', organizationId)
    .execute();
  const known = new Map(rows.map((row) => [nameOf(row), row]));
  const there: NoticedThing[] = [];
  let count = rows.length;
  for (const { kind, subject } of things) {
    const before = known.get(nameOf({ kind, subject }));
    if (before) {
      if (before.last_seen_at <= now - seenPrecisionSeconds) {
        await tx
          .updateTable('noticed_thing')
          .set({ last_seen_at: now })
          .where('organization_id', '=', organizationId)
          .where('kind', '=', kind)
          .where('subject', '=', subject)
          .execute();
      }
      const { first_seen_at: firstSeenAt, announced_at: announcedAt } = before;
      there.push({ kind, subject, firstSeenAt, announcedAt: announcedAt ?? undefined });
    } else if (count < most) {
      count += 1;
      await tx
        .insertInto('noticed_thing')
        .values({
          organization_id: organizationId,
          kind,
          subject,
          first_seen_at: now,
          last_seen_at: now,
          announced_at: null,
        })
        .execute();
      there.push({ kind, subject, firstSeenAt: now, announcedAt: undefined });
    }
  }
  // Deleted after the update of `last_seen_at`: a server that was off for a day must not announce everything again.
  await tx
    .deleteFrom('noticed_thing')
    .where('organization_id', '=', organizationId)
    .where('last_seen_at', '<=', now - forgetSeconds)
    .execute();
  return there;
}

function nameOf({ kind, subject }: Pick<NoticedThing, 'kind' | 'subject'>): string {
  return `${kind} ${subject}`;
}

/** Records that a thing is announced. @returns `true` once only */
export async function announceThing(
  tx: Db,
  organizationId: string,
  { kind, subject }: Pick<NoticedThing, 'kind' | 'subject'>,
  announcedAt: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('noticed_thing')
    .set({ announced_at: announcedAt })
    .where('organization_id', '=', organizationId)
    .where('kind', '=', kind)
    .where('subject', '=', subject)
    .where('announced_at', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}
