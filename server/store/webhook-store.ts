import { sql, type Kysely, type Selectable } from 'kysely';

import type { DisabledBecause, Webhook, WebhookChange, WebhookStore } from '#webhooks/webhook';
import { inTransaction } from './in-transaction.ts';
import { readStrings } from './json-column.ts';
import type { Schema } from './schema.ts';

type Row = Schema['webhook'];

/** Behind everything that was written down so far. */
const newest = sql<number>`(select coalesce(max(sequence), 0) from audit_event)`;

/** Webhooks of organizations in SQL. */
export function webhookStore(db: Kysely<Schema>): WebhookStore {
  return {
    async list(organizationId) {
      const rows = await db
        .selectFrom('webhook')
        .selectAll()
        .where('organization_id', '=', organizationId)
        .orderBy('created_at')
        .orderBy('id')
        .execute();
      return rows.map(readWebhook);
    },

    async byId(organizationId, id) {
      const row = await db
        .selectFrom('webhook')
        .selectAll()
        .where('organization_id', '=', organizationId)
        .where('id', '=', id)
        .executeTakeFirst();
      return row && readWebhook(row);
    },

    async add({ id, organizationId, url, actions, sealedSecret, createdAt }, most) {
      return inTransaction(db, async (transaction) => {
        const { count } = await transaction
          .selectFrom('webhook')
          .select((select) => select.fn.countAll<number>().as('count'))
          .where('organization_id', '=', organizationId)
          .executeTakeFirstOrThrow();
        if (count >= most) return false;
        const of = { id, organization_id: organizationId, created_at: createdAt };
        const wish = { url, actions: JSON.stringify(actions), sealed_secret: sealedSecret };
        await transaction
          .insertInto('webhook')
          .values({ ...of, ...wish, position: newest })
          .execute();
        return true;
      });
    },

    async change(organizationId, id, change) {
      const { numUpdatedRows } = await db
        .updateTable('webhook')
        .set(changedColumns(change))
        .set(({ eb }) => ({ revision: eb('revision', '+', 1) }))
        .where('organization_id', '=', organizationId)
        .where('id', '=', id)
        .executeTakeFirst();
      return numUpdatedRows === 1n;
    },

    async remove(organizationId, id) {
      const { numDeletedRows } = await db
        .deleteFrom('webhook')
        .where('organization_id', '=', organizationId)
        .where('id', '=', id)
        .executeTakeFirst();
      return numDeletedRows === 1n;
    },
  };
}

function changedColumns({ url, actions, secret, disabled, enabled }: WebhookChange) {
  return {
    attempts: 0,
    next_attempt_at: 0,
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
    ...(enabled === 'from-now' && { position: newest }),
  };
}

export function readWebhook(row: Selectable<Row>): Webhook {
  const { sealed_earlier_secret: sealed, earlier_until: until } = row;
  const { last_failure: why, last_failure_at: failedAt } = row;
  return {
    id: row.id,
    organizationId: row.organization_id,
    url: row.url,
    actions: readStrings(row.actions),
    sealedSecret: row.sealed_secret,
    earlierSecret: sealed === null ? undefined : { sealed, until: until ?? 0 },
    attempts: row.attempts,
    nextAttemptAt: row.next_attempt_at,
    failingSince: row.failing_since ?? undefined,
    lastSuccessAt: row.last_success_at ?? undefined,
    lastFailure: why === null || failedAt === null ? undefined : { at: failedAt, why },
    disabled:
      row.disabled_at === null
        ? undefined
        : { at: row.disabled_at, because: readBecause(row.disabled_because) },
    createdAt: row.created_at,
  };
}

function readBecause(column: string | null): DisabledBecause {
  return column === 'gone' || column === 'failing' ? column : 'asked';
}
