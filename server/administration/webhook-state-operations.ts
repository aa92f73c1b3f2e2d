import { z } from 'zod';

import { organizationOperation } from './operation.ts';
import { ownWebhook, shownWebhook, showWebhook } from './shown-webhook.ts';
import { ofWebhook, webhookPath, webhookTarget as target } from './webhook-operations.ts';

const overlapSeconds = 86_400;
const permission = 'webhook.manage';

export const webhookRotate = organizationOperation({
  name: 'webhook.rotate',
  doc: 'Give a webhook a new secret, shown this once; for a day the one before signs as well',
  route: { method: 'POST', path: `${webhookPath}/rotate` },
  permission,
  input: z.strictObject(ofWebhook),
  output: shownWebhook.extend({ secret: z.string() }).meta({ id: 'RotatedWebhook' }),
  target,
  async run({ webhookId }, { organization }, ports) {
    const { id, sealedSecret: sealed } = await ownWebhook(organization, webhookId, ports);
    const now = ports.clock.now();
    const { secret, sealedSecret } = ports.webhookSetup.newSecret(id);
    const earlierSecret = { sealed, until: now + overlapSeconds };
    await ports.webhooks.change(organization.id, id, { secret: { sealedSecret, earlierSecret } });
    return { ...showWebhook(await ownWebhook(organization, id, ports), now), secret };
  },
});

export const webhookTest = organizationOperation({
  name: 'webhook.test',
  doc: 'Send an event of the type `webhook.test` now, and say what came back',
  route: { method: 'POST', path: `${webhookPath}/test` },
  permission,
  input: z.strictObject(ofWebhook),
  output: z
    .object({
      isDelivered: z.boolean(),
      status: z.int().nullable().describe('The HTTP status, if there was an answer'),
      words: z.string().describe('What came of it, in words that go behind "it"'),
    })
    .meta({ id: 'WebhookTest' }),
  target,
  async ahead({ webhookId }, { organization }, ports) {
    const { webhookSetup } = ports;
    const webhook = await ownWebhook(organization, webhookId, ports);
    const outcome = await webhookSetup.test(webhook, organization.name);
    return { webhookSetup: { ...webhookSetup, test: async () => outcome } };
  },
  async run({ webhookId }, { organization }, ports) {
    const webhook = await ownWebhook(organization, webhookId, ports);
    const outcome = await ports.webhookSetup.test(webhook, organization.name);
    const { isDelivered, status = null, words } = outcome;
    return { isDelivered, status, words };
  },
});

export const webhookEnable = organizationOperation({
  name: 'webhook.enable',
  doc: 'Go on sending events there, or try again now what was not taken',
  route: { method: 'POST', path: `${webhookPath}/enable` },
  permission,
  input: z.strictObject({
    ...ofWebhook,
    from: z
      .enum(['where_it_stood', 'now'])
      .default('where_it_stood')
      .describe('`now` leaves out what happened since it was disabled, or was not taken'),
  }),
  output: shownWebhook,
  target: ({ webhookId, from }) => `${target({ webhookId })} from ${from}`,
  async run({ webhookId, from }, { organization }, ports) {
    const { id } = await ownWebhook(organization, webhookId, ports);
    const enabled = from === 'now' ? 'from-now' : 'where-it-stood';
    await ports.webhooks.change(organization.id, id, { enabled });
    return showWebhook(await ownWebhook(organization, id, ports), ports.clock.now());
  },
});

export const webhookDisable = organizationOperation({
  name: 'webhook.disable',
  doc: 'Send no events there until it is enabled again',
  route: { method: 'POST', path: `${webhookPath}/disable` },
  permission,
  input: z.strictObject(ofWebhook),
  output: shownWebhook,
  target,
  async run({ webhookId }, { organization }, ports) {
    const { id, disabled } = await ownWebhook(organization, webhookId, ports);
    const now = ports.clock.now();
    if (!disabled) {
      await ports.webhooks.change(organization.id, id, { disabled: { at: now, because: 'asked' } });
    }
    return showWebhook(await ownWebhook(organization, id, ports), now);
  },
});
