import { createHmac, randomBytes } from 'node:crypto';

import type { KeptEvent } from '#audit/audit-log';
import { eventDocument } from '#audit/event-document';
import type { EpochSeconds } from '#clock/clock';

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
export function eventMessage(event: KeptEvent): WebhookMessage {
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
