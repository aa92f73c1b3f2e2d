import { sql, type ExpressionBuilder, type Selectable, type Updateable } from 'kysely';

import type { EpochSeconds } from '#model/clock';
import { readAuditEvent } from './audit.ts';
import { countRows, readStrings } from './columns.ts';
import type { Schema } from './schema.ts';
import { advisoryLock, quickTransaction, transaction, type Db } from './transaction.ts';

// Webhooks of organizations, and the events that are still to be delivered. There is no queue: each webhook stores its position
// in the audit log.

/** A URL that an organization's audit events are sent to, with the state of the deliveries. */
export type Webhook = ReturnType<typeof readWebhook>;

function readWebhook(row: Selectable<Schema['webhook']>) {
  const { sealed_earlier_secret: sealed, earlier_until: until } = row;
  const { last_failure: why, last_failure_at: failedAt } = row;
  return {
    id: row.id,
    organizationId: row.organization_id,
    url: row.url,
    /** The actions to send: `key.create`, or `key.` for all that start with it. Empty for every event. */
    actions: readStrings(row.actions),
    /** Encrypted for `webhookSecretPurpose`. */
    sealedSecret: row.sealed_secret,
    /** The previous secret. Messages are signed with it too, until `until`. */
    earlierSecret: sealed === null ? undefined : ({ sealed, until: until ?? 0 } as const),
    /** How often the delivery of the next event failed. */
    attempts: row.attempts,
    nextAttemptAt: row.next_attempt_at,
    failingSince: row.failing_since ?? undefined,
    lastSuccessAt: row.last_success_at ?? undefined,
    /** `why` is a predicate whose subject is "it". It does not contain the path of the URL, which may be a secret. */
    lastFailure: why === null || failedAt === null ? undefined : ({ at: failedAt, why } as const),
    disabled:
      row.disabled_at === null
        ? undefined
        : ({ at: row.disabled_at, because: readBecause(row.disabled_because) } as const),
    createdAt: row.created_at,
  } as const;
}

/** `asked`: a person disabled it. `gone`: the receiver answered 410. `failing`: deliveries failed for days. */
export type DisabledBecause = 'asked' | 'gone' | 'failing';

export type NewWebhook = Pick<
  Webhook,
  'id' | 'organizationId' | 'url' | 'actions' | 'sealedSecret' | 'createdAt'
>;

/** A change by a person. Omitted fields keep their value. Every change resets the failed attempts, and allows the next one at once. */
export interface WebhookChange {
  readonly url?: string;
  readonly actions?: readonly string[];
  readonly secret?: Pick<Webhook, 'sealedSecret' | 'earlierSecret'>;
  readonly disabled?: NonNullable<Webhook['disabled']>;
  /** Enables the webhook: it continues after the last event that it was sent, or starts with the next event that happens. */
  readonly enabled?: 'continue' | 'from-now';
}

/** A webhook's position when it was read. Updates apply only while `revision` and `position` are unchanged. */
export interface WebhookPosition {
  readonly id: string;
  readonly revision: number;
  readonly position: number;
}

/** The next event to send to a webhook. */
export type PendingEvent = NonNullable<Awaited<ReturnType<typeof claimPendingEvent>>>;

/** The position after all stored events of the organization. */
const newest = (organizationId: string) =>
  sql<number>`coalesce((select audit_order.last from audit_order
    join organization on organization.name = audit_order.organization
    where organization.id = ${organizationId}), 0)`;

/** The webhooks of an organization, oldest first. */
export async function listWebhooks(db: Db, organizationId: string): Promise<Webhook[]> {
  const rows = await db
    .selectFrom('webhook')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('created_at')
    .orderBy('id')
    .execute();
  return rows.map(readWebhook);
}

export async function findWebhook(
  db: Db,
  organizationId: string,
  id: string,
): Promise<Webhook | undefined> {
  const row = await db
    .selectFrom('webhook')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst();
  return row && readWebhook(row);
}

/**
 * Adds a webhook. It receives events from now on.
 *
 * @returns `false` when the organization already has `most` webhooks
 */
export async function insertWebhook(
  db: Db,
  { id, organizationId, url, actions, sealedSecret, createdAt }: NewWebhook,
  most: number,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    await advisoryLock(tx, `webhooks ${organizationId}`);
    const count = await countRows(
      tx.selectFrom('webhook').where('organization_id', '=', organizationId),
    );
    if (count >= most) return false;
    await tx
      .insertInto('webhook')
      .values({
        id,
        organization_id: organizationId,
        url,
        actions: JSON.stringify(actions),
        sealed_secret: sealedSecret,
        created_at: createdAt,
        position: newest(organizationId),
      })
      .execute();
    return true;
  });
}

/** @returns `false` when there is no such webhook */
export async function updateWebhook(
  db: Db,
  organizationId: string,
  id: string,
  change: WebhookChange,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('webhook')
    .set(changedColumns(organizationId, change))
    .set(({ eb }) => ({ revision: eb('revision', '+', 1) }))
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** @returns `false` when there is no such webhook */
export async function deleteWebhook(db: Db, organizationId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('webhook')
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/** Active webhooks with events after their position, and when the next attempt is due. */
export async function listPendingWebhooks(
  db: Db,
): Promise<{ readonly id: string; readonly nextAttemptAt: EpochSeconds }[]> {
  const rows = await active(db)
    .select(['webhook.id', 'webhook.next_attempt_at', 'webhook.claimed_until'])
    .where((where) =>
      where.exists(
        where
          .selectFrom('audit_event')
          .select('audit_event.id')
          .whereRef('audit_event.organization', '=', 'organization.name')
          .whereRef('audit_event.sequence', '>', 'webhook.position'),
      ),
    )
    .execute();
  return rows.map(({ id, next_attempt_at: dueAt, claimed_until: claimedUntil }) => ({
    id,
    nextAttemptAt: Math.max(dueAt, claimedUntil),
  }));
}

/**
 * Claims the next event for a webhook, so that no other process sends it before `until`. Events whose actions it does not
 * subscribe to are skipped. `undefined` when there is no such event, when the webhook is disabled, and while another process has
 * a claim.
 */
export async function claimPendingEvent(
  db: Db,
  id: string,
  { now, until }: { readonly now: EpochSeconds; readonly until: EpochSeconds },
) {
  const row = await active(db)
    .selectAll('webhook')
    .select('organization.name as organization')
    .where('webhook.id', '=', id)
    .executeTakeFirst();
  if (!row || row.claimed_until > now) return undefined;
  const webhook = readWebhook(row);
  const { organization, position, revision } = row;
  const place = { id, revision, position };
  // The last sequence is read first, so that a matching event that is stored between the two queries is found and not skipped.
  const last = await lastSequence(db, organization, position);
  if (last === undefined) return undefined;
  const event = await firstMatching(db, organization, position, webhook.actions);
  if (event) {
    // If the claim is lost in a power failure, the event is sent again, which receivers expect.
    const isClaimed = await quickTransaction(db, async (tx) => {
      const { numUpdatedRows } = await updateAt(tx, place)
        .set({ claimed_until: until })
        .where('claimed_until', '<=', now)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    });
    if (!isClaimed) return undefined;
    return {
      webhook,
      organization,
      place,
      event: readAuditEvent(event),
      /** The position after the event. */
      next: event.sequence,
    } as const;
  }
  await moveTo(db, place, last);
  return undefined;
}

/** Releases a claim without an attempt. */
export async function releasePendingEvent(db: Db, place: WebhookPosition): Promise<void> {
  await updateAt(db, place).set({ claimed_until: 0 }).execute();
}

/** Records a delivery. @returns `false` when the webhook was changed in the meantime, or advanced by another process */
export async function markDelivered(
  db: Db,
  place: WebhookPosition,
  next: number,
  deliveredAt: EpochSeconds,
): Promise<boolean> {
  return moveTo(db, place, next, {
    claimed_until: 0,
    attempts: 0,
    next_attempt_at: 0,
    failing_since: null,
    last_success_at: deliveredAt,
  });
}

/** Records a failed delivery, which is either repeated or disables the webhook. @returns as `markDelivered` */
export async function markUndelivered(
  db: Db,
  place: WebhookPosition,
  {
    at: failedAt,
    why,
    follows,
  }: {
    readonly at: EpochSeconds;
    readonly why: string;
    readonly follows:
      | { readonly nextAttemptAt: EpochSeconds }
      | { readonly disabled: DisabledBecause };
  },
): Promise<boolean> {
  const { numUpdatedRows } = await updateAt(db, place)
    .set({ claimed_until: 0, last_failure_at: failedAt, last_failure: why })
    .set((set) => ({
      attempts: set('attempts', '+', 1),
      failing_since: set.fn.coalesce('failing_since', set.val(failedAt)),
    }))
    .set(
      'disabled' in follows
        ? { disabled_at: failedAt, disabled_because: follows.disabled }
        : { next_attempt_at: follows.nextAttemptAt },
    )
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

function active(db: Db) {
  return db
    .selectFrom('webhook')
    .innerJoin('organization', 'organization.id', 'webhook.organization_id')
    .where('webhook.disabled_at', 'is', null)
    .where('organization.disabled_at', 'is', null);
}

function updateAt(db: Db, { id, revision, position }: WebhookPosition) {
  return db
    .updateTable('webhook')
    .where('id', '=', id)
    .where('revision', '=', revision)
    .where('position', '=', position)
    .where('disabled_at', 'is', null);
}

/** If the move is lost in a power failure, an event is sent again, which receivers expect. */
async function moveTo(
  db: Db,
  place: WebhookPosition,
  position: number,
  change: Updateable<Schema['webhook']> = {},
): Promise<boolean> {
  return quickTransaction(db, async (tx) => {
    const query = updateAt(tx, place).set({ ...change, position });
    return (await query.executeTakeFirst()).numUpdatedRows === 1n;
  });
}

/** The sequence of an organization's last event, if it is after `position`. */
async function lastSequence(
  db: Db,
  organization: string,
  position: number,
): Promise<number | undefined> {
  const row = await db
    .selectFrom('audit_event')
    .select(({ fn }) => fn.max('sequence').as('last'))
    .where('organization', '=', organization)
    .where('sequence', '>', position)
    .executeTakeFirst();
  return row?.last ?? undefined;
}

function firstMatching(db: Db, organization: string, position: number, actions: readonly string[]) {
  return db
    .selectFrom('audit_event')
    .selectAll()
    .where('organization', '=', organization)
    .where('sequence', '>', position)
    .where((where) => (actions.length === 0 ? where.val(true) : matches(where, actions)))
    .orderBy('sequence')
    .limit(1)
    .executeTakeFirst();
}

/** Whether an event's action is one of these, or starts with one that ends in a dot. */
function matches(where: ExpressionBuilder<Schema, 'audit_event'>, actions: readonly string[]) {
  return where.or(
    actions.map((action) =>
      action.endsWith('.')
        ? where.and([
            where('action', '>=', action),
            // "/" is the character after ".".
            where('action', '<', `${action.slice(0, -1)}/`),
          ])
        : where('action', '=', action),
    ),
  );
}

function changedColumns(
  organizationId: string,
  { url, actions, secret, disabled, enabled }: WebhookChange,
) {
  return {
    attempts: 0,
    next_attempt_at: 0,
    claimed_until: 0,
    failing_since: null,
    ...(url !== undefined && { url }),
    ...(actions && { actions: JSON.stringify(actions) }),
    ...(secret && {
      sealed_secret: secret.sealedSecret,
      sealed_earlier_secret: secret.earlierSecret?.sealed ?? null,
      earlier_until: secret.earlierSecret?.until ?? null,
    }),
    ...(disabled && { disabled_at: disabled.at, disabled_because: disabled.because }),
    ...(enabled && { disabled_at: null, disabled_because: null }),
    ...(enabled === 'from-now' && { position: newest(organizationId) }),
  };
}

function readBecause(column: string | null): DisabledBecause {
  return column === 'gone' || column === 'failing' ? column : 'asked';
}
