import type { ExpressionBuilder, Kysely } from 'kysely';

import type { BacklogPlace, WebhookBacklog } from '#webhooks/webhook-backlog';
import { readKeptEvent } from './audit-log.ts';
import { inTransaction } from './in-transaction.ts';
import type { Schema } from './schema.ts';
import { readWebhook } from './webhook-store.ts';

/** What webhooks have not been sent yet, in SQL: what the record holds behind their positions. */
export function webhookBacklog(
  db: Kysely<Schema>,
  /** Of moves: one that is lost has an event sent again, which whoever sends it can bear. */
  transact = inTransaction,
): WebhookBacklog {
  const inForce = db
    .selectFrom('webhook')
    .innerJoin('organization', 'organization.id', 'webhook.organization_id')
    .where('webhook.disabled_at', 'is', null)
    .where('organization.disabled_at', 'is', null);
  const at = (on: Kysely<Schema>, { id, revision, position }: BacklogPlace) =>
    on
      .updateTable('webhook')
      .where('id', '=', id)
      .where('revision', '=', revision)
      .where('position', '=', position)
      .where('disabled_at', 'is', null);
  /** Of what an organization was written down behind a position: the newest, and the first that is wanted. */
  const newestOf = async (organization: string, position: number) => {
    const row = await db
      .selectFrom('audit_event')
      .select(({ fn }) => fn.max('sequence').as('newest'))
      .where('organization', '=', organization)
      .where('sequence', '>', position)
      .executeTakeFirst();
    return row?.newest ?? undefined;
  };
  const firstOf = (organization: string, position: number, actions: readonly string[]) =>
    db
      .selectFrom('audit_event')
      .selectAll()
      .where('organization', '=', organization)
      .where('sequence', '>', position)
      .where((where) => (actions.length === 0 ? where.val(true) : wanted(where, actions)))
      .orderBy('sequence')
      .limit(1)
      .executeTakeFirst();
  const move = (place: BacklogPlace, position: number, change = {}) =>
    transact(db, async (transaction) => {
      const query = at(transaction, place).set({ ...change, position });
      return (await query.executeTakeFirst()).numUpdatedRows === 1n;
    });

  return {
    async waiting() {
      const rows = await inForce
        .select(['webhook.id', 'webhook.next_attempt_at'])
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
      return rows.map(({ id, next_attempt_at: nextAttemptAt }) => ({ id, nextAttemptAt }));
    },

    async next(id) {
      const row = await inForce
        .selectAll('webhook')
        .select('organization.name as organization')
        .where('webhook.id', '=', id)
        .executeTakeFirst();
      if (!row) return undefined;
      const webhook = readWebhook(row);
      const { organization, position, revision } = row;
      const place = { id, revision, position };
      // In this order: what is wanted and written down between the two is found, and not passed by.
      const newest = await newestOf(organization, position);
      if (newest === undefined) return undefined;
      const event = await firstOf(organization, position, webhook.actions);
      if (event) {
        const next = event.sequence ?? position;
        return { webhook, organization, place, event: readKeptEvent(event), next };
      }
      await move(place, newest);
      return undefined;
    },

    delivered: (place, next, deliveredAt) =>
      move(place, next, {
        attempts: 0,
        next_attempt_at: 0,
        failing_since: null,
        last_success_at: deliveredAt,
      }),

    async failed(place, { at: failedAt, why, follows }) {
      const { numUpdatedRows } = await at(db, place)
        .set({ last_failure_at: failedAt, last_failure: why })
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
    },
  };
}

/** Whether an event is one of these: an action by its name, or by what it begins with, up to its dot. */
function wanted(where: ExpressionBuilder<Schema, 'audit_event'>, actions: readonly string[]) {
  return where.or(
    actions.map((action) =>
      action.endsWith('.')
        ? where.and([
            where('action', '>=', action),
            // The character behind a dot.
            where('action', '<', `${action.slice(0, -1)}/`),
          ])
        : where('action', '=', action),
    ),
  );
}
