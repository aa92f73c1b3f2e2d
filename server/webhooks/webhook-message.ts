import { hostAndPort } from '#outbound/checked-addresses';
import { createHmac, randomBytes } from 'node:crypto';
import type { Sealing } from '#oauth/master-key';
import { eventDocument } from '#audit/export-audit';
import type { EpochSeconds } from '#clock/clock';
import type { StoredAuditEvent } from '#db/audit';
import type { Webhook } from '#db/webhooks';

const secretBytes = 32;
const prefix = 'whsec_';

/** What a receiver gets; the same at every try but for when it was sent. */
export interface WebhookMessage {
  /** The event's own, so that a receiver can tell what it has already. */
  readonly id: string;
  readonly body: string;
}

/** A secret of 256 random bits, as libraries for Standard Webhooks read it. */
export function newWebhookSecret(): string {
  return prefix + randomBytes(secretBytes).toString('base64');
}

/** An event as a receiver reads it: `data` is what the exported record has of it. */
export function eventMessage(event: StoredAuditEvent): WebhookMessage {
  const { action: type, at } = event;
  const timestamp = new Date(at * 1000).toISOString();
  return { id: event.id, body: JSON.stringify({ type, timestamp, data: eventDocument(event) }) };
}

/**
 * The headers that prove a message and when it was sent: a signature for each secret that counts.
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

/** What a webhook's secrets are sealed for. No other webhook can open them. */
export function webhookSecretPurpose(webhookId: string): string {
  return `webhook secret ${webhookId}`;
}

/** The secret, and for a while the one before it: a receiver knows one of them. */
export function secretsOf(
  { id, sealedSecret, earlierSecret }: Webhook,
  sealing: Pick<Sealing, 'open'>,
  now: EpochSeconds,
): string[] {
  const earlier = earlierSecret && earlierSecret.until > now ? [earlierSecret.sealed] : [];
  return [sealedSecret, ...earlier].map((sealed) => sealing.open(webhookSecretPurpose(id), sealed));
}

/**
 * What is wrong with the URL of a webhook, in words that go behind the field's name. Plain http is for hosts that the
 * operator named, as only those are inside this network.
 */
export function webhookUrlProblem(
  text: string,
  allowedHosts: readonly string[],
): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'is not an https URL';
  if (url.username || url.password || url.hash) return 'may hold no user, password or fragment';
  const isNamed = allowedHosts.includes(url.hostname) || allowedHosts.includes(hostAndPort(url));
  return url.protocol === 'https:' || isNamed ? undefined : 'is not an https URL';
}
