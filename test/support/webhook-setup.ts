import { randomBytes } from 'node:crypto';

import type { Clock } from '#server/model/clock';
import { masterKey } from '#server/secrets/master-key';
import { webhookSetup, type WebhookSetup } from '#server/webhooks/webhook-setup';

const sealing = masterKey(randomBytes(32));

/** A URL without a listener. */
export const deadWebhook = 'https://127.0.0.1:1/in';

/** Sets webhooks up under a key that all of a test file shares, to receivers on this machine's loopback alone. */
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
