import { z } from 'zod';

import { randomBase62 } from '#credentials/secret-format';
import { wantedActionPattern } from '#webhooks/wanted-actions';
import type { AdministrationPorts } from './administration-ports.ts';
import { AdministrationRefusal, invalidField } from './administration-refusal.ts';
import { fields } from './fields.ts';
import { organizationOperation } from './operation.ts';
import { ownWebhook, shownWebhook, showWebhook } from './shown-webhook.ts';

const mostWebhooks = 10;
const mostActions = 50;

const inOrganization = { organization: fields.organization };
const listPath = '/organizations/{organization}/webhooks';
const permission = 'webhook.manage';

/** What names one webhook. */
export const ofWebhook = { ...inOrganization, webhookId: z.string().max(100) };
export const webhookPath = `${listPath}/{webhookId}`;
export const webhookTarget = ({ webhookId }: { webhookId: string }) => `webhook:${webhookId}`;

const url = z
  .string()
  .max(2000)
  .describe('https, on the public internet; a chat’s may be a secret');
const actions = z
  .array(
    z
      .string()
      .max(100)
      .regex(wantedActionPattern, 'is neither a beginning, as key., nor an event, as key.create'),
  )
  .max(mostActions)
  .transform((all) => [...new Set(all)])
  .describe('As `key.create`, or `key.` for all that begin so; all events where none is named');

export const webhookList = organizationOperation({
  name: 'webhook.list',
  doc: 'List where the events of an organization are sent',
  route: { method: 'GET', path: listPath },
  permission,
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(shownWebhook) }),
  async run(_input, { organization }, { webhooks, clock }) {
    const now = clock.now();
    return { items: (await webhooks.list(organization.id)).map((one) => showWebhook(one, now)) };
  },
});

export const webhookCreate = organizationOperation({
  name: 'webhook.create',
  doc: 'Have the events of an organization sent to a URL from now on; its secret is shown this once',
  route: { method: 'POST', path: listPath, made: `${listPath}/{id}` },
  permission,
  input: z.strictObject({ ...inOrganization, url, actions: actions.default([]) }),
  output: shownWebhook.extend({ secret: z.string() }).meta({ id: 'CreatedWebhook' }),
  target: (_, made) => made && webhookTarget({ webhookId: made.id }),
  async ahead(input, _, ports) {
    await checkUrl(input.url, ports);
    return {};
  },
  async run(input, { organization }, ports) {
    const id = `whk_${randomBase62(16)}`;
    const { secret, sealedSecret } = ports.webhookSetup.newSecret(id);
    const createdAt = ports.clock.now();
    const place = { id, organizationId: organization.id, createdAt, sealedSecret };
    const wish = { url: new URL(input.url).href, actions: input.actions };
    if (!(await ports.webhooks.add({ ...place, ...wish }, mostWebhooks))) {
      const why = `there are ${mostWebhooks} webhooks already: remove one first`;
      throw new AdministrationRefusal('conflict', why);
    }
    return { ...showWebhook(await ownWebhook(organization, id, ports), createdAt), secret };
  },
});

export const webhookRead = organizationOperation({
  name: 'webhook.read',
  doc: 'Read where events are sent, and how that goes',
  route: { method: 'GET', path: webhookPath },
  permission,
  input: z.strictObject(ofWebhook),
  output: shownWebhook,
  run: async ({ webhookId }, { organization }, ports) =>
    showWebhook(await ownWebhook(organization, webhookId, ports), ports.clock.now()),
});

export const webhookUpdate = organizationOperation({
  name: 'webhook.update',
  doc: 'Change where events are sent, or which; what is not given stays',
  route: { method: 'PATCH', path: webhookPath },
  permission,
  input: z.strictObject({ ...ofWebhook, url: url.optional(), actions: actions.optional() }),
  output: shownWebhook,
  target: webhookTarget,
  async ahead(input, _, ports) {
    if (input.url !== undefined) await checkUrl(input.url, ports);
    return {};
  },
  async run(input, { organization }, ports) {
    const { id } = await ownWebhook(organization, input.webhookId, ports);
    await ports.webhooks.change(organization.id, id, {
      ...(input.url !== undefined && { url: new URL(input.url).href }),
      ...(input.actions && { actions: input.actions }),
    });
    return showWebhook(await ownWebhook(organization, id, ports), ports.clock.now());
  },
});

export const webhookRemove = organizationOperation({
  name: 'webhook.remove',
  doc: 'Send events there no more, at once and for good',
  route: { method: 'DELETE', path: webhookPath },
  permission,
  input: z.strictObject(ofWebhook),
  output: z.object({ id: z.string() }),
  target: webhookTarget,
  async run({ webhookId }, { organization }, ports) {
    const { id } = await ownWebhook(organization, webhookId, ports);
    await ports.webhooks.remove(organization.id, id);
    return { id };
  },
});

/** @throws {AdministrationRefusal} `invalid` for what may not be sent to */
async function checkUrl(
  text: string,
  { webhookSetup }: Pick<AdministrationPorts, 'webhookSetup'>,
): Promise<void> {
  const problem = await webhookSetup.problemOf(text);
  if (problem !== undefined) throw invalidField('url', problem);
}
