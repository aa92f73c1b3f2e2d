import { z } from 'zod';

import type { EpochSeconds } from '#clock/clock';
import type { Organization } from '#organizations/organization-store';
import type { Webhook } from '#webhooks/webhook';
import type { AdministrationPorts } from './administration-ports.ts';
import { notFound } from './administration-refusal.ts';
import { fields } from './fields.ts';

/** A webhook as every surface shows it. */
export const shownWebhook = z
  .object({
    id: z.string(),
    url: z.string(),
    actions: z.array(z.string()).describe('Which events it gets; all where none is named'),
    status: z
      .enum(['delivering', 'retrying', 'disabled'])
      .describe('`retrying`: the last event was not taken, and is sent again at `next_attempt_at`'),
    nextAttemptAt: fields.maybeAt,
    failingSince: fields.maybeAt,
    lastSuccessAt: fields.maybeAt,
    lastFailureAt: fields.maybeAt,
    lastFailure: z.string().nullable().describe('In words that go behind "it"'),
    disabledAt: fields.maybeAt,
    disabledBecause: z
      .enum(['asked', 'gone', 'failing'])
      .nullable()
      .describe('`gone`: it answered 410; `failing`: it took nothing for three days'),
    earlierSecretUntil: fields.maybeAt.describe('Until when the secret before signs as well'),
    createdAt: fields.at,
  })
  .meta({ id: 'Webhook' });

export type ShownWebhook = z.output<typeof shownWebhook>;

export function showWebhook(webhook: Webhook, now: EpochSeconds): ShownWebhook {
  const { disabled, attempts, lastFailure, earlierSecret } = webhook;
  const isRetrying = !disabled && attempts > 0;
  return {
    id: webhook.id,
    url: webhook.url,
    actions: [...webhook.actions],
    status: disabled ? 'disabled' : isRetrying ? 'retrying' : 'delivering',
    nextAttemptAt: isRetrying ? webhook.nextAttemptAt : null,
    failingSince: webhook.failingSince ?? null,
    lastSuccessAt: webhook.lastSuccessAt ?? null,
    lastFailureAt: lastFailure?.at ?? null,
    lastFailure: lastFailure?.why ?? null,
    disabledAt: disabled?.at ?? null,
    disabledBecause: disabled?.because ?? null,
    earlierSecretUntil: earlierSecret && earlierSecret.until > now ? earlierSecret.until : null,
    createdAt: webhook.createdAt,
  };
}

/** A webhook of this organization. @throws {AdministrationRefusal} `not_found` */
export async function ownWebhook(
  { id }: Organization,
  webhookId: string,
  { webhooks }: Pick<AdministrationPorts, 'webhooks'>,
): Promise<Webhook> {
  const webhook = await webhooks.byId(id, webhookId);
  if (webhook) return webhook;
  throw notFound('webhook');
}
