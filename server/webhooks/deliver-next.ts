import type { AuditLog } from '#audit/audit-log';
import type { Clock } from '#clock/clock';
import type { Sealing } from '#people/sealing';
import { retrySeconds } from './retry.ts';
import { secretsOf } from './secrets-of.ts';
import { sendMessage, type SendMessagePorts, type SendOutcome } from './send-message.ts';
import type { PendingEvent, WebhookBacklog } from './webhook-backlog.ts';
import { eventMessage } from './webhook-message.ts';
import type { DisabledBecause, Webhook } from './webhook.ts';

const patienceSeconds = 3 * 86_400;

export interface DeliverNextPorts extends SendMessagePorts {
  readonly backlog: WebhookBacklog;
  /** One transaction: a webhook is not disabled without a word in the record. */
  readonly together: <Result>(
    work: (stores: {
      readonly backlog: Pick<WebhookBacklog, 'failed'>;
      readonly audit: Pick<AuditLog, 'append'>;
    }) => Promise<Result>,
  ) => Promise<Result>;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly clock: Clock;
  readonly random: () => number;
  /** Is told what was not delivered. */
  readonly undelivered: (webhookId: string, words: string) => void;
}

/**
 * Sends a webhook the next event of its organization, and notes what came of it. What ended before that was noted is
 * sent again, under the same id. `true` when the one behind it may follow at once.
 */
export async function deliverNext(
  pending: PendingEvent,
  ports: DeliverNextPorts,
  signal: AbortSignal,
): Promise<boolean> {
  const { webhook, place, event, next } = pending;
  const { backlog, sealing, clock } = ports;
  const secrets = secretsOf(webhook, sealing, clock.now());
  const to = { url: webhook.url, secrets, now: clock.now() };
  const outcome = await sendMessage(eventMessage(event), to, ports, { signal });
  if (outcome.isDelivered) return backlog.delivered(place, next, clock.now());
  // We hung up ourselves, and it is nobody's failure.
  if (signal.aborted) return false;
  ports.undelivered(webhook.id, outcome.words);
  await noteFailure(pending, outcome, ports);
  return false;
}

async function noteFailure(
  { webhook, organization, place }: PendingEvent,
  { status, words: why, retryAfterSeconds }: SendOutcome,
  { backlog, together, clock, random }: DeliverNextPorts,
): Promise<void> {
  const at = clock.now();
  const disabled = disabledBy(webhook, status, at);
  if (disabled === undefined) {
    const { attempts } = webhook;
    const nextAttemptAt = at + retrySeconds({ attempts, retryAfterSeconds }, random);
    await backlog.failed(place, { at, why, follows: { nextAttemptAt } });
    return;
  }
  await together(async (stores) => {
    if (!(await stores.backlog.failed(place, { at, why, follows: { disabled } }))) return;
    await stores.audit.append({
      at,
      actor: 'nobody',
      organization,
      action: 'webhook.disable',
      target: `webhook:${webhook.id} ${disabled}`,
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    });
  });
}

function disabledBy(
  { failingSince }: Webhook,
  status: number | undefined,
  now: number,
): DisabledBecause | undefined {
  if (status === 410) return 'gone';
  return failingSince !== undefined && now - failingSince >= patienceSeconds
    ? 'failing'
    : undefined;
}
