import type { Sealing } from '#secrets/master-key';
import type { Clock, EpochSeconds } from '#model/clock';
import { insertAuditEvent } from '#db/audit';
import { DueQueues } from '#db/due-queues';
import { type Db, transaction } from '#db/transaction';
import {
  type DisabledBecause,
  claimPendingEvent,
  listPendingWebhooks,
  markDelivered,
  markUndelivered,
  type PendingEvent,
  releasePendingEvent,
  type Webhook,
} from '#db/webhooks';
import { backOffs, pauseMs } from '#model/back-off';
import { OutboundError } from '#outbound/checked-addresses';
import type { GuardedFetch } from '#outbound/guarded-fetch';
import {
  eventMessage,
  secretsOf,
  signedHeaders,
  webhookUrlProblem,
  type WebhookMessage,
} from './webhook-message.ts';

const lookEveryMs = 500;
const mostAtOnce = 8;
/** How many events one webhook gets before the others have their turn. */
const mostATurn = 50;
const pauseAfterFaultSeconds = 30;
/** Longer than a request may take. After this time, another process sends an event that a dead process had claimed. */
const claimSeconds = 15;

interface WebhookDeliveriesPorts extends DeliverNextPorts {
  /** A change token of the database. */
  readonly changeToken: () => string;
  readonly failed: (error: unknown) => void;
}

/**
 * Sends audit events to webhooks: one after the other to each webhook, and to a few webhooks concurrently.
 */
export class WebhookDeliveries {
  readonly #ports: WebhookDeliveriesPorts;
  readonly #queues: DueQueues;

  constructor(ports: WebhookDeliveriesPorts) {
    this.#ports = ports;
    this.#queues = new DueQueues(
      {
        ...ports,
        listWaiting: async () =>
          (await listPendingWebhooks(ports.db)).map(({ id, nextAttemptAt }) => {
            return { id, dueAt: nextAttemptAt };
          }),
        serve: (id, signal) => this.#serve(id, signal),
      },
      { lookEveryMs, mostAtOnce, pauseAfterFaultSeconds },
    );
  }

  /** Looks once and starts what is due; never rejects. */
  look(): Promise<void> {
    return this.#queues.run();
  }

  /** Aborts the requests in progress. The next process sends their events again. */
  close(): Promise<void> {
    return this.#queues.close();
  }

  async #serve(id: string, signal: AbortSignal): Promise<void> {
    for (let count = 0; count < mostATurn && !signal.aborted; count += 1) {
      const now = this.#ports.clock.now();
      const until = now + claimSeconds;
      const pending = await claimPendingEvent(this.#ports.db, id, { now, until });
      if (!pending || !(await deliverNext(pending, this.#ports, signal))) return;
    }
  }
}

const giveUpSeconds = 3 * 86_400;

interface DeliverNextPorts extends SendMessagePorts {
  readonly db: Db;
  readonly sealing: Pick<Sealing, 'open'>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly undelivered: (webhookId: string, words: string) => void;
}

/**
 * Sends the next event of its organization to a webhook and records the result. If the process ends before that, the event is
 * sent again with the same id. Resolves with `true` if the following event may be sent immediately.
 */
export async function deliverNext(
  pending: PendingEvent,
  ports: DeliverNextPorts,
  signal: AbortSignal,
): Promise<boolean> {
  const { webhook, place, event, next } = pending;
  const { db, sealing, clock } = ports;
  const secrets = secretsOf(webhook, sealing, clock.now());
  const to = { url: webhook.url, secrets, now: clock.now() };
  const outcome = await sendMessage(eventMessage(event), to, ports, { signal });
  if (outcome.isDelivered) return markDelivered(db, place, next, clock.now());
  // This process aborted the request, which does not count as a failure.
  if (signal.aborted) {
    await releasePendingEvent(db, place);
    return false;
  }
  ports.undelivered(webhook.id, outcome.words);
  await noteFailure(pending, outcome, ports);
  return false;
}

async function noteFailure(
  { webhook, organization, place }: PendingEvent,
  { status, words: why, retryAfterSeconds }: SendOutcome,
  { db, clock, random }: DeliverNextPorts,
): Promise<void> {
  const at = clock.now();
  const disabled = disabledBy(webhook, status, at);
  if (disabled === undefined) {
    const { attempts } = webhook;
    const nextAttemptAt = at + retrySeconds({ attempts, retryAfterSeconds }, random);
    await markUndelivered(db, place, { at, why, follows: { nextAttemptAt } });
    return;
  }
  await transaction(db, async (tx) => {
    if (!(await markUndelivered(tx, place, { at, why, follows: { disabled } }))) return;
    await insertAuditEvent(tx, {
      at,
      actor: 'system',
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
  return failingSince !== undefined && now - failingSince >= giveUpSeconds ? 'failing' : undefined;
}

/** The result of sending a message. */
export interface SendOutcome {
  readonly isDelivered: boolean;
  /** The receiver's status, if it answered. */
  readonly status: number | undefined;
  /** What the receiver did, as the end of a sentence: `answered 500`. */
  readonly words: string;
  /** The receiver's `Retry-After`. */
  readonly retryAfterSeconds?: number | undefined;
}

interface SendMessagePorts {
  readonly ask: GuardedFetch;
  readonly allowedHosts: readonly string[];
}

/**
 * Sends a message once. A redirect is a failure, because a signed message is meant for its URL only. A network error is a result,
 * too.
 */
export async function sendMessage(
  message: WebhookMessage,
  to: { readonly url: string; readonly secrets: readonly string[]; readonly now: EpochSeconds },
  { ask, allowedHosts }: SendMessagePorts,
  { signal }: { signal?: AbortSignal } = {},
): Promise<SendOutcome> {
  const { url, secrets, now } = to;
  const failed = (words: string) => ({ isDelivered: false, status: undefined, words });
  // The operator may have removed the host from the allowed ones.
  const problem = webhookUrlProblem(url, allowedHosts);
  if (problem !== undefined) return failed(problem);
  try {
    const headers = signedHeaders(message, secrets, now);
    const { body } = message;
    const { status, headers: answered } = await ask(url, {
      method: 'POST',
      headers,
      body,
      ...(signal && { signal }),
    });
    const isDelivered = status >= 200 && status < 300;
    const mayWait = status === 429 || status === 503;
    return {
      isDelivered,
      status,
      words: statusWords(status),
      retryAfterSeconds: mayWait ? readRetryAfter(answered.get('retry-after'), now) : undefined,
    };
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    return failed(outboundWords(error));
  }
}

function statusWords(status: number): string {
  if (status >= 300 && status < 400) return `answered ${status}; redirects are not followed`;
  return `answered ${status}`;
}

/** Describes a network error, as `words` of `SendOutcome`. */
function outboundWords({ code }: OutboundError): string {
  switch (code) {
    case 'forbidden':
      return 'is not on the public internet';
    case 'not_public':
      return 'has a host that was not found, or is not on the public internet';
    case 'timeout':
      return 'did not answer in time';
    case 'unreachable':
    case 'redirected':
    case 'refused':
    case 'too_large':
      return 'could not be reached';
  }
}

/**
 * How many seconds to wait before the next attempt: from five seconds, doubling up to an hour, minus a random part so that many
 * webhooks are not retried at the same moment. A receiver's `Retry-After` is respected within the same bounds.
 */
export function retrySeconds(
  { attempts, retryAfterSeconds }: { attempts: number; retryAfterSeconds: number | undefined },
  random: () => number,
): number {
  const { firstMs, mostMs } = backOffs.webhook;
  const wantedMs =
    retryAfterSeconds === undefined
      ? pauseMs(backOffs.webhook, attempts + 1, random)
      : retryAfterSeconds * 1000;
  return Math.round(Math.min(mostMs, Math.max(firstMs, wantedMs)) / 1000);
}

/** Reads `Retry-After`, a number of seconds or a date, as seconds; `undefined` for anything else. RFC 9110 §10.2.3 */
export function readRetryAfter(value: string | null, now: EpochSeconds): number | undefined {
  if (value === null) return undefined;
  if (/^\d{1,9}$/.test(value.trim())) return Number(value);
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil(at / 1000) - now);
}
