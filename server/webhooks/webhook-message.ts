import { isNamed } from '#outbound/checked-addresses';
import { createHmac, randomBytes } from 'node:crypto';
import type { Sealing } from '#secrets/master-key';
import { eventDocument } from '#audit/export-audit';
import type { EpochSeconds } from '#model/clock';
import type { StoredAuditEvent } from '#db/audit';
import type { Webhook } from '#db/webhooks';

const secretBytes = 32;
const prefix = 'whsec_';

/** A message to a receiver. Each attempt sends the same message, except for the time and the signatures in its headers. */
export interface WebhookMessage {
  /** The id of the event, by which a receiver recognizes repeated messages. */
  readonly id: string;
  readonly body: string;
}

/** Generates a secret of 256 random bits, in the form that libraries for Standard Webhooks read. */
export function newWebhookSecret(): string {
  return prefix + randomBytes(secretBytes).toString('base64');
}

/** The message for an event. `data` has the members of an exported record. */
export function eventMessage(event: StoredAuditEvent): WebhookMessage {
  const { action: type, at } = event;
  const timestamp = new Date(at * 1000).toISOString();
  return { id: event.id, body: JSON.stringify({ type, timestamp, data: eventDocument(event) }) };
}

/**
 * The headers that prove who sent a message and when: one signature for each valid secret.
 *
 * Standard Webhooks 1.0.0, signature scheme `v1`
 */
export function signedHeaders(
  { id, body }: WebhookMessage,
  secrets: readonly string[],
  sentAt: EpochSeconds,
): Record<string, string> {
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${sentAt}.${body}`).digest('base64')}`;
  });
  return {
    'content-type': 'application/json',
    'user-agent': 'Latchkey-Webhooks',
    'webhook-id': id,
    'webhook-timestamp': String(sentAt),
    'webhook-signature': signatures.join(' '),
  };
}

/** The purpose that a webhook's secrets are encrypted for. They cannot be decrypted for another webhook. */
export function webhookSecretPurpose(webhookId: string): string {
  return `webhook secret ${webhookId}`;
}

/** The valid secrets: the current one and, for a while after a change, the previous one. */
export function secretsOf(
  { id, sealedSecret, earlierSecret }: Webhook,
  sealing: Pick<Sealing, 'open'>,
  now: EpochSeconds,
): string[] {
  const earlier = earlierSecret && earlierSecret.until > now ? [earlierSecret.sealed] : [];
  return [sealedSecret, ...earlier].map((sealed) => sealing.open(webhookSecretPurpose(id), sealed));
}

/**
 * What is wrong with the URL of a webhook: a predicate whose subject is the field. Plain HTTP is allowed only for hosts that the
 * operator named, because only those can be in the private network.
 */
export function webhookUrlProblem(
  text: string,
  allowedHosts: readonly string[],
): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'is not an https URL';
  if (url.username || url.password || url.hash)
    return 'must not contain a user, a password or a fragment';
  return url.protocol === 'https:' || isNamed(url, allowedHosts)
    ? undefined
    : 'is not an https URL';
}
