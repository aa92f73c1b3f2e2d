import { randomBytes } from 'node:crypto';

import type { Clock } from '#server/model/clock';
import { masterKey } from '#server/secrets/master-key';
import { webhookSetup, type WebhookSetup } from '#server/webhooks/webhook-setup';

const sealing = masterKey(randomBytes(32));

/** A URL without a listener. */
export const deadWebhook = 'https://127.0.0.1:1/in';

/** The webhook setup with a sealing key that the whole test file shares; it reaches receivers only on loopback. */
export function loopbackWebhooks(clock: Clock): WebhookSetup {
  return webhookSetup({
    sealing,
    guard: {
      allowedHosts: ['127.0.0.1'],
      resolve: () => Promise.reject(new Error('no test resolves a name')),
    },
    clock,
  });
}
