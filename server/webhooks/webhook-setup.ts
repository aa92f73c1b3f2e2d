import { randomUUID } from 'node:crypto';
import type { Sealing } from '#secrets/master-key';
import type { Clock } from '#model/clock';
import type { Webhook } from '#db/webhooks';
import {
  checkedAddresses,
  hostFault,
  OutboundError,
  type OutboundGuard,
} from '#outbound/checked-addresses';
import { guardedFetch } from '#outbound/guarded-fetch';
import { sendMessage, type SendOutcome } from './deliveries.ts';
import {
  newWebhookSecret,
  secretsOf,
  webhookSecretPurpose,
  webhookUrlProblem,
} from './webhook-message.ts';

/** Limits of a request to a receiver: ten seconds, and the body of its response is discarded. */
export const receiverLimits = { timeoutMs: 10_000, maxBytes: 16 * 1024, discardsBody: true };

export function webhookSetup({
  sealing,
  guard,
  clock,
}: {
  sealing: Sealing;
  guard: OutboundGuard;
  clock: Clock;
}) {
  const { allowedHosts } = guard;
  const ask = guardedFetch({ ...receiverLimits, ...guard });
  return {
    /** What is wrong with a webhook's URL, to follow the name of the field: `has an unknown host`. `undefined` if it is valid. */
    async problemOf(url: string): Promise<string | undefined> {
      const problem = webhookUrlProblem(url, allowedHosts);
      if (problem !== undefined) return problem;
      try {
        await checkedAddresses(new URL(url), guard);
      } catch (error) {
        if (!(error instanceof OutboundError)) throw error;
        return error.code === 'forbidden'
          ? hostFault(error)
          : `has a host that ${hostFault(error)}`;
      }
      return undefined;
    },

    /** Generates a secret: in plain text, and encrypted for this webhook. */
    newSecret(webhookId: string): { readonly secret: string; readonly sealedSecret: string } {
      const secret = newWebhookSecret();
      return { secret, sealedSecret: sealing.seal(webhookSecretPurpose(webhookId), secret) };
    },

    /** Sends an event of the type `webhook.test` immediately and returns the result, even if it is not delivered. */
    async test(webhook: Webhook, organization: string): Promise<SendOutcome> {
      const now = clock.now();
      const body = {
        type: 'webhook.test',
        timestamp: new Date(now * 1000).toISOString(),
        data: { organization, webhook: webhook.id },
      };
      const message = { id: `test_${randomUUID()}`, body: JSON.stringify(body) };
      const to = { url: webhook.url, secrets: secretsOf(webhook, sealing, now), now };
      return sendMessage(message, to, { ask, allowedHosts });
    },
  };
}

/** The functions that the operations on webhooks need in addition to the database. */
export type WebhookSetup = ReturnType<typeof webhookSetup>;

/** The syntax for selecting actions: `key.create`, or `key.` for all actions that start with it. */
export const wantedActionPattern = /^[a-z][a-z-]*(?:\.[a-z-]+)*\.?$/;
