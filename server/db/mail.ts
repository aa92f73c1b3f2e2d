import { sql, type Selectable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import type { Page, PageQuery } from '#model/page';
import { isAuthorEntitled } from './invitations.ts';
import type { Schema } from './schema.ts';
import { countRows } from './columns.ts';
import { advisoryLock, transaction, type Db } from './transaction.ts';

// The mail server of each organization, and the mails that wait for it. A process claims a mail before it sends it, so that no other
// process sends it too. Claims expire, because a process may end before it has sent the mail.

/**
 * How the connection to a mail server is encrypted: after a request that the server must accept, from the start, or not at all.
 *
 * RFC 8314 §3
 */
export const mailSecurities = [
  'starttls',
  'tls',
  'none',
] as const satisfies readonly MailServer['security'][];

/** What a person enters about a mail server. */
export type MailServerSettings = Pick<
  MailServer,
  'host' | 'port' | 'security' | 'user' | 'sealedPassword' | 'from'
>;

/** The mail server of an organization, with its last success and failure. */
export type MailServer = ReturnType<typeof readServer>;

function readServer(
  row: Selectable<Schema['mail_server']> & { readonly name: string; readonly title: string },
) {
  const { last_failure: why, last_failure_at: failedAt } = row;
  return {
    organizationId: row.organization_id,
    /** The title of the organization, or its name. */
    organization: row.title || row.name,
    host: row.host,
    port: row.port,
    security: row.security,
    user: row.user_name ?? undefined,
    /** Encrypted for `mailPasswordPurpose`. */
    sealedPassword: row.sealed_password ?? undefined,
    from: row.from_address,
    changedAt: row.changed_at,
    revision: row.revision,
    /** The number of consecutive failures. */
    attempts: row.attempts,
    nextAttemptAt: row.next_attempt_at,
    lastSuccessAt: row.last_success_at ?? undefined,
    /** `why` is a predicate whose subject is the server. It contains no secret. */
    lastFailure: why === null || failedAt === null ? undefined : ({ at: failedAt, why } as const),
  } as const;
}

export type MailKind = Schema['mail']['kind'];

export interface NewMail extends Pick<Mail, 'id' | 'kind' | 'recipient' | 'invitationId'> {
  /** Encrypted for `mailPurpose`. */
  readonly sealedContent: string;
}

/** A mail as lists show it. */
export type Mail = ReturnType<typeof readMail>;

function readMail(row: Selectable<Schema['mail']>) {
  return {
    id: row.id,
    kind: row.kind,
    recipient: row.recipient,
    invitationId: row.invitation_id ?? undefined,
    status: row.status,
    /** The result of the last attempt: a predicate whose subject is the mail server. */
    answer: row.answer ?? undefined,
    attempts: row.attempts,
    nextAttemptAt: row.next_attempt_at,
    createdAt: row.created_at,
    endedAt: row.ended_at ?? undefined,
  } as const;
}

/** A mail that this process claimed. */
export interface ClaimedMail extends Pick<
  NewMail & Mail,
  'id' | 'kind' | 'recipient' | 'sealedContent' | 'createdAt' | 'attempts'
> {
  readonly version: number;
}

export async function findMailServer(
  db: Db,
  organizationId: string,
): Promise<MailServer | undefined> {
  const row = await db
    .selectFrom('mail_server')
    .innerJoin('organization', 'organization.id', 'mail_server.organization_id')
    .selectAll('mail_server')
    .select(['organization.name', 'organization.title'])
    .where('organization_id', '=', organizationId)
    .executeTakeFirst();
  return row && readServer(row);
}

/** Sets the mail server of an organization and clears its failures, so that mails that are due are tried again at once. */
export async function replaceMailServer(
  tx: Db,
  organizationId: string,
  settings: MailServerSettings,
  changedAt: EpochSeconds,
): Promise<void> {
  const columns = {
    host: settings.host,
    port: settings.port,
    security: settings.security,
    user_name: settings.user ?? null,
    sealed_password: settings.sealedPassword ?? null,
    from_address: settings.from,
    changed_at: changedAt,
    attempts: 0,
    next_attempt_at: 0,
    last_failure_at: null,
    last_failure: null,
  };
  await tx
    .insertInto('mail_server')
    .values({ organization_id: organizationId, ...columns })
    .onConflict((conflict) =>
      conflict
        .column('organization_id')
        .doUpdateSet(({ eb }) =>
          Object.assign({ revision: eb('mail_server.revision', '+', 1) }, columns),
        ),
    )
    .execute();
}

/** Removes the mail server of an organization, with the mails that wait for it. @returns `false` when there is none */
export async function deleteMailServer(tx: Db, organizationId: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('mail_server')
    .where('organization_id', '=', organizationId)
    .executeTakeFirst();
  await tx
    .deleteFrom('mail')
    .where('organization_id', '=', organizationId)
    .where('status', '=', 'waiting')
    .execute();
  return numDeletedRows === 1n;
}

/** How long a mail is listed once it was sent or refused. */
const listedSeconds = 30 * 86_400;
const rowsAStatement = 100;

/**
 * Adds mails. A mail about an invitation replaces mails about it that still wait. Mails that ended long ago are deleted.
 *
 * @returns `false`, without adding or replacing any mail, when more than `most` would wait
 */
export async function insertMails(
  db: Db,
  organizationId: string,
  mails: readonly NewMail[],
  { now, most }: { readonly now: EpochSeconds; readonly most: number },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `mail ${organizationId}`);
    const own = tx.deleteFrom('mail').where('organization_id', '=', organizationId);
    await own.where('ended_at', '<=', now - listedSeconds).execute();
    const count = await countRows(
      tx
        .selectFrom('mail')
        .where('organization_id', '=', organizationId)
        .where('status', '=', 'waiting'),
    );
    if (count + mails.length > most) return false;
    for (let from = 0; from < mails.length; from += rowsAStatement) {
      const some = mails.slice(from, from + rowsAStatement);
      const about = some.flatMap(({ invitationId }) => invitationId ?? []);
      if (about.length > 0) await deleteWaitingMails(tx, organizationId, about);
      const rows = some.map((mail) => ({
        id: mail.id,
        organization_id: organizationId,
        kind: mail.kind,
        recipient: mail.recipient,
        invitation_id: mail.invitationId ?? null,
        sealed_content: mail.sealedContent,
        status: 'waiting' as const,
        next_attempt_at: now,
        created_at: now,
      }));
      await tx.insertInto('mail').values(rows).execute();
    }
    return true;
  });
}

/** Deletes the mails about these invitations that were not sent yet. */
async function deleteWaitingMails(
  tx: Db,
  organizationId: string,
  invitationIds: readonly string[],
): Promise<void> {
  await tx
    .deleteFrom('mail')
    .where('organization_id', '=', organizationId)
    .where('invitation_id', 'in', invitationIds)
    .where('status', '=', 'waiting')
    .execute();
}

/** The mails of an organization, newest first. */
export async function listMails(
  db: Db,
  organizationId: string,
  {
    status,
    limit,
    offset,
  }: Pick<PageQuery<never>, 'limit' | 'offset'> & {
    readonly status: Mail['status'] | undefined;
  },
): Promise<Page<Mail>> {
  const all = db
    .selectFrom('mail')
    .where('organization_id', '=', organizationId)
    .$if(status !== undefined, (query) => query.where('status', '=', status ?? 'waiting'));
  const rows = await all
    .selectAll()
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(limit)
    .offset(offset)
    .execute();
  return { items: rows.map(readMail), total: await countRows(all) };
}

/** How many mails of an organization have each state. */
export async function countMails(
  db: Db,
  organizationId: string,
): Promise<Readonly<Record<Mail['status'], number>>> {
  const counts = { waiting: 0, sent: 0, refused: 0 };
  const rows = await db
    .selectFrom('mail')
    .select(['status', ({ fn }) => fn.countAll<number | string>().as('count')])
    .where('organization_id', '=', organizationId)
    .groupBy('status')
    .execute();
  for (const { status, count } of rows) counts[status] = Number(count);
  return counts;
}

/** The newest mail about each of these invitations. */
export async function findMailsAbout(
  db: Db,
  invitationIds: readonly string[],
): Promise<ReadonlyMap<string, Mail>> {
  if (invitationIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('mail')
    .selectAll()
    .where('invitation_id', 'in', invitationIds)
    .orderBy('created_at')
    .orderBy('id')
    .execute();
  return new Map(rows.map((row) => [row.invitation_id ?? '', readMail(row)]));
}

/** The organizations that have waiting mails and a mail server, each with the time when its first mail may be sent. */
export async function listWaitingOrganizations(db: Db) {
  const rows = await db
    .selectFrom('mail')
    .innerJoin('mail_server', 'mail_server.organization_id', 'mail.organization_id')
    .innerJoin('organization', 'organization.id', 'mail.organization_id')
    .select(['mail.organization_id', 'mail_server.next_attempt_at as paused_until'])
    .select(
      sql<number>`min(case when mail.claimed_until > mail.next_attempt_at
          then mail.claimed_until else mail.next_attempt_at end)`.as('due_at'),
    )
    .where('mail.status', '=', 'waiting')
    .where('organization.disabled_at', 'is', null)
    .groupBy(['mail.organization_id', 'mail_server.next_attempt_at'])
    .execute();
  return rows.map(({ organization_id: organizationId, due_at, paused_until }) => ({
    organizationId,
    dueAt: Math.max(due_at, paused_until),
  }));
}

/**
 * Claims the mail that has been due longest, until `until`; none once the mail server was changed or its organization disabled.
 * Deletes mails about invitations that are gone, or whose author may no longer invite. Mails about expired invitations, and old
 * notices, end as refused.
 */
export async function claimMail(
  db: Db,
  { organizationId, revision }: Pick<MailServer, 'organizationId' | 'revision'>,
  { now, until }: { readonly now: EpochSeconds; readonly until: EpochSeconds },
): Promise<ClaimedMail | undefined> {
  for (;;) {
    const row = await db
      .selectFrom('mail')
      .innerJoin('mail_server', 'mail_server.organization_id', 'mail.organization_id')
      .innerJoin('organization', 'organization.id', 'mail.organization_id')
      .leftJoin('invitation', (join) =>
        join.onRef('invitation.id', '=', 'mail.invitation_id').on(isAuthorEntitled),
      )
      .selectAll('mail')
      .select(['invitation.id as open_id', 'invitation.expires_at'])
      .where('mail.organization_id', '=', organizationId)
      .where('mail_server.revision', '=', revision)
      .where('organization.disabled_at', 'is', null)
      .where('status', '=', 'waiting')
      .where('mail.next_attempt_at', '<=', now)
      .where('claimed_until', '<=', now)
      .orderBy('mail.next_attempt_at')
      .orderBy('mail.id')
      .executeTakeFirst();
    if (!row) return undefined;
    const { id, version } = row;
    if (row.invitation_id !== null && row.open_id === null) {
      await deleteUnsent(db, { id, version });
      continue;
    }
    const isLate = row.kind === 'notice' && row.created_at <= now - staleSeconds;
    if (isLate || (row.expires_at !== null && row.expires_at <= now)) {
      await endMail(db, { id, version }, 'refused', lateWords, now);
      continue;
    }
    const { numUpdatedRows } = await db
      .updateTable('mail')
      .set({ claimed_until: until, version: version + 1 })
      .where('id', '=', id)
      .where('version', '=', version)
      .where('status', '=', 'waiting')
      .executeTakeFirst();
    if (numUpdatedRows !== 1n) continue;
    const { kind, recipient, sealed_content: sealedContent, created_at: createdAt, attempts } = row;
    if (sealedContent === null) throw new Error('a mail waits without content');
    return { id, kind, recipient, sealedContent, createdAt, attempts, version: version + 1 };
  }
}

const lateWords = 'was not reached in time';
/** How long a notice may wait. */
const staleSeconds = 3 * 86_400;

type MailVersion = Pick<ClaimedMail, 'id' | 'version'>;

async function deleteUnsent(db: Db, { id, version }: MailVersion): Promise<void> {
  await db
    .deleteFrom('mail')
    .where('id', '=', id)
    .where('version', '=', version)
    .where('status', '=', 'waiting')
    .execute();
}

/** Records that a claimed mail was accepted or refused for good. Does nothing if another process claimed it since. */
export async function endMail(
  db: Db,
  { id, version }: MailVersion,
  status: 'sent' | 'refused',
  answer: string,
  endedAt: EpochSeconds,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('mail')
    .set({ status, answer, ended_at: endedAt, sealed_content: null, claimed_until: 0 })
    .where('id', '=', id)
    .where('version', '=', version)
    .where('status', '=', 'waiting')
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** Ends a claim. The mail is tried again at `nextAttemptAt`; with `counts`, its `attempts` increase. */
export async function releaseMail(
  db: Db,
  { id, version }: MailVersion,
  {
    nextAttemptAt,
    answer,
    counts,
  }: { readonly nextAttemptAt: EpochSeconds; readonly answer?: string; readonly counts: boolean },
): Promise<void> {
  await db
    .updateTable('mail')
    .set({ claimed_until: 0, next_attempt_at: nextAttemptAt, ...(answer && { answer }) })
    .$if(counts, (query) => query.set(({ eb }) => ({ attempts: eb('attempts', '+', 1) })))
    .where('id', '=', id)
    .where('version', '=', version)
    .where('status', '=', 'waiting')
    .execute();
}

/** Records that the mail server worked or failed, unless a person has changed its settings since. */
export async function noteMailServer(
  db: Db,
  { organizationId, revision }: Pick<MailServer, 'organizationId' | 'revision'>,
  result:
    | { readonly worked: EpochSeconds }
    | { readonly failed: EpochSeconds; readonly why: string; readonly nextAttemptAt: EpochSeconds },
): Promise<void> {
  const change =
    'worked' in result
      ? { last_success_at: result.worked, next_attempt_at: 0, attempts: 0 }
      : {
          last_failure_at: result.failed,
          last_failure: result.why,
          next_attempt_at: result.nextAttemptAt,
        };
  await db
    .updateTable('mail_server')
    .set(change)
    .$if('failed' in result, (query) =>
      query.set(({ eb }) => ({ attempts: eb('attempts', '+', 1) })),
    )
    .where('organization_id', '=', organizationId)
    .where('revision', '=', revision)
    .execute();
}

/** Lets all waiting mails of an organization be sent now. Returns how many wait. */
export async function hurryMails(
  db: Db,
  organizationId: string,
  now: EpochSeconds,
): Promise<number> {
  await db
    .updateTable('mail_server')
    .set({ next_attempt_at: 0 })
    .where('organization_id', '=', organizationId)
    .execute();
  const { numUpdatedRows } = await db
    .updateTable('mail')
    .set({ next_attempt_at: now })
    .where('organization_id', '=', organizationId)
    .where('status', '=', 'waiting')
    .executeTakeFirst();
  return Number(numUpdatedRows);
}
