import { z } from 'zod';

import {
  findWebhook,
  type Webhook,
  deleteWebhook,
  insertWebhook,
  listWebhooks,
  updateWebhook,
} from '#db/webhooks';
import type { Organization } from '#db/organizations';
import type { EpochSeconds } from '#model/clock';
import {
  type AdministrationPorts,
  organizationOperation,
  type Operation,
  type WithDb,
} from './operation.ts';
import { conflict, invalidField, notFound } from './refusal.ts';
import { fields, surfaces } from './fields.ts';
import { randomBase62 } from '#secrets/secrets';
import { wantedActionPattern } from '#webhooks/webhook-setup';
import { json, masterKeyFile, outboundHost } from '#config/option';
import { UsageError } from '#config/usage-error';
import { administer, command, listCommand, printed, type Command } from './command.ts';
import {
  namedOrganization,
  organizationArgument,
  organizationIn,
  textArgument,
} from './positionals.ts';
import { printMade } from './print.ts';
import { viewOf } from './views.ts';

/** The view of a webhook: on pages, in the API and in commands. */
const webhookViewSchema = z
  .object({
    id: z.string(),
    url: z.string(),
    actions: z.array(z.string()).describe('The events that it receives; empty for all events'),
    status: z
      .enum(['delivering', 'retrying', 'disabled'])
      .describe(
        '`retrying`: the last event was not delivered; the next attempt is at `next_attempt_at`',
      ),
    nextAttemptAt: fields.maybeAt,
    failingSince: fields.maybeAt,
    lastSuccessAt: fields.maybeAt,
    lastFailureAt: fields.maybeAt,
    lastFailure: z.string().nullable().describe('A predicate such as "answered 500"'),
    disabledAt: fields.maybeAt,
    disabledBecause: z
      .enum(['asked', 'gone', 'failing'])
      .nullable()
      .describe(
        '`gone`: the receiver answered 410; `failing`: every delivery failed for three days',
      ),
    earlierSecretUntil: fields.maybeAt.describe(
      'Until when messages are also signed with the previous secret',
    ),
    createdAt: fields.at,
  })
  .meta({ id: 'Webhook' });

export type WebhookView = z.output<typeof webhookViewSchema>;

function toWebhookView(webhook: Webhook, now: EpochSeconds): WebhookView {
  const { disabled, attempts, lastFailure, earlierSecret } = webhook;
  const isRetrying = !disabled && attempts > 0;
  return viewOf(webhookViewSchema, {
    ...webhook,
    status: disabled ? 'disabled' : isRetrying ? 'retrying' : 'delivering',
    nextAttemptAt: isRetrying ? webhook.nextAttemptAt : null,
    lastFailureAt: lastFailure?.at,
    lastFailure: lastFailure?.why,
    disabledAt: disabled?.at,
    disabledBecause: disabled?.because,
    earlierSecretUntil: earlierSecret && earlierSecret.until > now ? earlierSecret.until : null,
  });
}

/** Finds a webhook of an organization. @throws {AdministrationRefusal} `not_found` */
async function ownWebhook(
  { id }: Organization,
  webhookId: string,
  { db }: WithDb,
): Promise<Webhook> {
  const webhook = await findWebhook(db, id, webhookId);
  if (webhook) return webhook;
  throw notFound('webhook');
}

const mostWebhooks = 10;
const mostActions = 50;

const inOrganization = { organization: fields.organization };
const listPath = '/organizations/{organization}/webhooks';
const permission = 'webhook.manage';

/** The input fields that name a webhook. */
const ofWebhook = { ...inOrganization, webhookId: z.string().max(100) };
const webhookPath = `${listPath}/{webhookId}`;
const webhookTarget = ({ webhookId }: { webhookId: string }) => `webhook:${webhookId}`;

const urlField = z
  .string()
  .max(2000)
  .describe('https, on the public internet; the URL can be a secret, for example of a chat')
  .register(surfaces, {
    control: {
      kind: 'text',
      type: 'url',
      label: 'URL',
      subject: 'The URL',
      help: 'https, on the public internet. To use a host in your own network, ask the operator of Latchkey to allow it.',
      attributes: { autocomplete: 'off', maxlength: '2000', spellcheck: 'false' },
    },
  });
const actionsField = z
  .array(
    z
      .string()
      .max(100)
      .regex(
        wantedActionPattern,
        'must be a name such as key.create, or a prefix such as key. for all events of keys',
      ),
  )
  .max(mostActions)
  .transform((all) => [...new Set(all)])
  .describe('An event such as `key.create`, or a prefix such as `key.`; empty for all events')
  .register(surfaces, {
    control: {
      kind: 'textarea',
      label: 'Events',
      subject: 'An event',
      help: 'One event or prefix per line; leave it empty for all events. Examples: key.create for one event, key. for all events of keys',
      optional: true,
      attributes: { spellcheck: 'false' },
      entries: { between: 'spaces and commas' },
    },
  });

const actionOption = {
  name: 'action',
  value: 'ACTION',
  repeated: true,
  doc: 'an event such as key.create, or a prefix such as key. (default: all events)',
} as const;

export const webhookList = organizationOperation({
  name: 'webhook.list',
  doc: 'List the webhooks of an organization',
  route: { method: 'GET', path: listPath },
  permission,
  input: z.strictObject(inOrganization),
  output: z.object({ items: z.array(webhookViewSchema) }),
  async run(_input, { organization }, { db, clock }) {
    const now = clock.now();
    return {
      items: (await listWebhooks(db, organization.id)).map((one) => toWebhookView(one, now)),
    };
  },
});

export const webhookCreate = organizationOperation({
  name: 'webhook.create',
  doc: 'Create a webhook that sends the events of an organization to a URL; only this response contains its secret',
  route: { method: 'POST', path: listPath, made: `${listPath}/{id}` },
  permission,
  input: z.strictObject({
    ...inOrganization,
    url: urlField.clone().register(surfaces, {
      option: { value: 'URL', doc: 'the URL: https, on the public internet' },
    }),
    actions: actionsField.default([]).register(surfaces, { option: actionOption }),
  }),
  output: webhookViewSchema.extend({ secret: z.string() }).meta({ id: 'CreatedWebhook' }),
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
    const settings = { url: new URL(input.url).href, actions: input.actions };
    if (!(await insertWebhook(ports.db, { ...place, ...settings }, mostWebhooks))) {
      throw conflict(`there are already ${mostWebhooks} webhooks: remove one first`);
    }
    return { ...toWebhookView(await ownWebhook(organization, id, ports), createdAt), secret };
  },
});

export const webhookRead = organizationOperation({
  name: 'webhook.read',
  doc: 'Read a webhook and the state of its deliveries',
  route: { method: 'GET', path: webhookPath },
  permission,
  input: z.strictObject(ofWebhook),
  output: webhookViewSchema,
  run: async ({ webhookId }, { organization }, ports) =>
    toWebhookView(await ownWebhook(organization, webhookId, ports), ports.clock.now()),
});

export const webhookUpdate = organizationOperation({
  name: 'webhook.update',
  doc: 'Change the URL or the events of a webhook; omitted fields keep their value',
  route: { method: 'PATCH', path: webhookPath },
  permission,
  input: z.strictObject({
    ...ofWebhook,
    url: urlField.optional(),
    actions: actionsField.optional(),
  }),
  output: webhookViewSchema,
  target: webhookTarget,
  async ahead(input, _, ports) {
    if (input.url !== undefined) await checkUrl(input.url, ports);
    return {};
  },
  async run(input, { organization }, ports) {
    const { id } = await ownWebhook(organization, input.webhookId, ports);
    await updateWebhook(ports.db, organization.id, id, {
      ...(input.url !== undefined && { url: new URL(input.url).href }),
      ...(input.actions && { actions: input.actions }),
    });
    return toWebhookView(await ownWebhook(organization, id, ports), ports.clock.now());
  },
});

export const webhookRemove = organizationOperation({
  name: 'webhook.remove',
  doc: 'Remove a webhook immediately; this cannot be undone',
  route: { method: 'DELETE', path: webhookPath },
  permission,
  input: z.strictObject(ofWebhook),
  output: z.object({ id: z.string() }),
  target: webhookTarget,
  async run({ webhookId }, { organization }, ports) {
    const { id } = await ownWebhook(organization, webhookId, ports);
    await deleteWebhook(ports.db, organization.id, id);
    return { id };
  },
});

/** @throws {AdministrationRefusal} `invalid` for a URL that webhooks must not be sent to */
async function checkUrl(
  text: string,
  { webhookSetup }: Pick<AdministrationPorts, 'webhookSetup'>,
): Promise<void> {
  const problem = await webhookSetup.problemOf(text);
  if (problem !== undefined) throw invalidField('url', problem);
}

const overlapSeconds = 86_400;

export const webhookRotate = organizationOperation({
  name: 'webhook.rotate',
  doc: 'Create a new secret for a webhook, shown only once; for one day, messages are also signed with the previous secret',
  route: { method: 'POST', path: `${webhookPath}/rotate` },
  permission,
  input: z.strictObject(ofWebhook),
  output: webhookViewSchema.extend({ secret: z.string() }).meta({ id: 'RotatedWebhook' }),
  target: webhookTarget,
  async run({ webhookId }, { organization }, ports) {
    const { id, sealedSecret: sealed } = await ownWebhook(organization, webhookId, ports);
    const now = ports.clock.now();
    const { secret, sealedSecret } = ports.webhookSetup.newSecret(id);
    const earlierSecret = { sealed, until: now + overlapSeconds };
    await updateWebhook(ports.db, organization.id, id, { secret: { sealedSecret, earlierSecret } });
    return { ...toWebhookView(await ownWebhook(organization, id, ports), now), secret };
  },
});

export const webhookTest = organizationOperation({
  name: 'webhook.test',
  doc: 'Send a `webhook.test` event now and return the result',
  route: { method: 'POST', path: `${webhookPath}/test` },
  permission,
  input: z.strictObject(ofWebhook),
  output: z
    .object({
      isDelivered: z.boolean(),
      status: z.int().nullable().describe('The HTTP status, if there was an answer'),
      words: z.string().describe('The result as a predicate such as "answered 200"'),
    })
    .meta({ id: 'WebhookTest' }),
  target: webhookTarget,
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
  doc: 'Enable a webhook, or retry an undelivered event now',
  route: { method: 'POST', path: `${webhookPath}/enable` },
  permission,
  input: z.strictObject({
    ...ofWebhook,
    from: z
      .enum(['where_it_stood', 'now'])
      .default('where_it_stood')
      .describe('`now` skips the events that were not delivered')
      .register(surfaces, {
        option: {
          name: 'from-now',
          doc: 'skip the events that were not delivered',
          read: () => 'now',
        },
      }),
  }),
  output: webhookViewSchema,
  target: ({ webhookId, from }) => `${webhookTarget({ webhookId })} from ${from}`,
  async run({ webhookId, from }, { organization }, ports) {
    const { id } = await ownWebhook(organization, webhookId, ports);
    const enabled = from === 'now' ? 'from-now' : 'continue';
    await updateWebhook(ports.db, organization.id, id, { enabled });
    return toWebhookView(await ownWebhook(organization, id, ports), ports.clock.now());
  },
});

export const webhookDisable = organizationOperation({
  name: 'webhook.disable',
  doc: 'Disable a webhook; it receives no events until it is enabled again',
  route: { method: 'POST', path: `${webhookPath}/disable` },
  permission,
  input: z.strictObject(ofWebhook),
  output: webhookViewSchema,
  target: webhookTarget,
  async run({ webhookId }, { organization }, ports) {
    const { id, disabled } = await ownWebhook(organization, webhookId, ports);
    const now = ports.clock.now();
    if (!disabled) {
      await updateWebhook(ports.db, organization.id, id, {
        disabled: { at: now, because: 'asked' },
      });
    }
    return toWebhookView(await ownWebhook(organization, id, ports), now);
  },
});

export const webhookOperations: readonly Operation[] = [
  webhookList,
  webhookCreate,
  webhookRead,
  webhookUpdate,
  webhookRotate,
  webhookTest,
  webhookEnable,
  webhookDisable,
  webhookRemove,
];

const webhookArguments = [organizationArgument, textArgument('ID', 'webhookId')];
const webhookColumns = [
  'id',
  'url',
  'actions',
  'status',
  'nextAttemptAt',
  'lastSuccessAt',
  'lastFailure',
  'disabledBecause',
] as const;

const updateCommand: Command = {
  words: 'webhook update',
  positionals: ['ORG', 'ID'],
  options: [
    { name: 'url', value: 'URL', doc: 'the new URL' },
    actionOption,
    { name: 'all-actions', doc: 'send all events' },
    outboundHost,
    json,
  ],
  doc: 'change the URL or the events of a webhook',
  async run(input, { out, ...ports }) {
    const [org = '', webhookId = ''] = input.positionals;
    const { name: organization } = await namedOrganization(org, ports.stores);
    const at = { organization, webhookId };
    const actions = [...input.list('action')];
    const isAll = input.flag('all-actions');
    if (isAll && actions.length > 0) throw new UsageError('give --action or --all-actions');
    const url = input.text('url');
    const change = {
      ...(url !== undefined && { url }),
      ...((isAll || actions.length > 0) && { actions }),
    };
    if (Object.keys(change).length === 0) {
      throw new UsageError('give one of --url, --action, --all-actions');
    }
    const changed = await administer(webhookUpdate, { ...at, ...change }, ports);
    printMade(printed(webhookColumns, changed, { given: at, now: ports.clock.now() }), {
      json: input.flag('json'),
      out,
    });
  },
};

export const webhookCommands: readonly Command[] = [
  command(webhookCreate, {
    words: 'webhook create',
    positionals: [organizationArgument],
    options: [masterKeyFile, outboundHost],
    doc: 'create a webhook that sends the events of an organization to a URL; its secret is shown once',
    prints: [...webhookColumns, 'secret'],
    secret: 'secret',
  }),
  listCommand(webhookList, {
    words: 'webhook list',
    positionals: [organizationArgument],
    doc: 'list the webhooks of an organization and the state of their deliveries',
    prints: webhookColumns,
    empty: (given) =>
      `no webhooks yet: latchkey-server webhook create ${organizationIn(given)} --url URL`,
  }),
  updateCommand,
  command(webhookRotate, {
    words: 'webhook rotate',
    positionals: webhookArguments,
    options: [masterKeyFile],
    doc: 'create a new secret for a webhook, shown once; for one day, messages are also signed with the previous secret',
    prints: ['id', 'secret', { earlier_until_at: 'earlierSecretUntil' }],
    secret: 'secret',
  }),
  command(webhookTest, {
    words: 'webhook test',
    positionals: webhookArguments,
    options: [masterKeyFile, outboundHost],
    doc: 'send a webhook.test event now and show the result',
    failed: ({ isDelivered, words }) => (isDelivered ? undefined : `the receiver ${words}`),
    prints: [{ id: (_, { given }) => given['webhookId'], answer: 'words' }],
  }),
  command(webhookEnable, {
    words: 'webhook enable',
    positionals: webhookArguments,
    doc: 'enable a webhook, or retry an undelivered event now',
    prints: webhookColumns,
  }),
  command(webhookDisable, {
    words: 'webhook disable',
    positionals: webhookArguments,
    doc: 'disable a webhook; it receives no events until it is enabled again',
    prints: webhookColumns,
  }),
  command(webhookRemove, {
    words: 'webhook remove',
    positionals: webhookArguments,
    doc: 'remove a webhook immediately; this cannot be undone',
    prints: ['id', { removed_at: (_, { now }) => now }],
  }),
];
