import {
  webhookCreate as create,
  webhookList as list,
  webhookRemove as remove,
  webhookUpdate as update,
} from '#administration/webhook-operations';
import {
  webhookDisable as disable,
  webhookEnable as enable,
  webhookRotate as rotate,
  webhookTest as test,
} from '#administration/webhook-state-operations';
import type { ShownWebhook } from '#administration/shown-webhook';
import { json, masterKeyFile, outboundHost, type Option } from '#config/option';
import type { Input } from '#config/read-options';
import { CommandError, UsageError } from '#config/usage-error';
import { administer } from './administer.ts';
import type { Command, Stores } from './command.ts';
import { findOrganization } from './named-server.ts';
import { printMade, printRows } from './print.ts';

const action: Option = {
  name: 'action',
  value: 'A',
  repeated: true,
  doc: 'an event to send, as key.create, or key. for all that begin so (default: all)',
};
const positionals = ['ORG', 'ID'];
const options = [json];

export const webhookCreate: Command = {
  words: 'webhook create',
  positionals: ['ORG'],
  options: [
    { name: 'url', value: 'URL', required: true, doc: 'where to; https, on the public internet' },
    action,
    masterKeyFile,
    outboundHost,
    json,
  ],
  doc: 'have the events of an organization sent to a URL; its secret is shown once',
  async run(input, { out, ...ports }) {
    const organization = await organizationOf(input, ports.stores);
    const wish = { url: input.must('url'), actions: [...input.list('action')] };
    const { secret, ...made } = await administer(create, { organization, ...wish }, ports);
    printMade({ ...facts(made), secret }, { json: input.flag('json'), secret: 'secret', out });
  },
};

export const webhookList: Command = {
  words: 'webhook list',
  positionals: ['ORG'],
  options,
  doc: 'list where the events of an organization are sent, and how that goes',
  async run(input, { out, ...ports }) {
    const organization = await organizationOf(input, ports.stores);
    const { items } = await administer(list, { organization }, ports);
    const empty = `no webhooks yet: latchkey-server webhook create ${organization} --url URL`;
    printRows(items.map(facts), { json: input.flag('json'), empty, out });
  },
};

export const webhookUpdate: Command = {
  words: 'webhook update',
  positionals,
  options: [
    { name: 'url', value: 'URL', doc: 'where to from now on' },
    action,
    { name: 'all-actions', doc: 'send every event' },
    outboundHost,
    json,
  ],
  doc: 'change where events are sent, or which',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input, ports.stores);
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
    const changed = await administer(update, { ...at, ...change }, ports);
    printMade(facts(changed), { json: input.flag('json'), out });
  },
};

export const webhookRotate: Command = {
  words: 'webhook rotate',
  positionals,
  options: [masterKeyFile, json],
  doc: 'give a webhook a new secret, shown once; for a day the one before signs as well',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input, ports.stores);
    const { id, secret, earlierSecretUntil } = await administer(rotate, at, ports);
    const made = { id, secret, earlier_until_at: earlierSecretUntil };
    printMade(made, { json: input.flag('json'), secret: 'secret', out });
  },
};

export const webhookTest: Command = {
  words: 'webhook test',
  positionals,
  options: [masterKeyFile, outboundHost, json],
  doc: 'send an event of the type webhook.test now, and say what came back',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input, ports.stores);
    const { isDelivered, words } = await administer(test, at, ports);
    if (!isDelivered) throw new CommandError(`it ${words}`);
    printMade({ id: at.webhookId, answer: words }, { json: input.flag('json'), out });
  },
};

export const webhookEnable: Command = {
  words: 'webhook enable',
  positionals,
  options: [{ name: 'from-now', doc: 'leave out what happened meanwhile' }, json],
  doc: 'go on sending events there, or try again now what was not taken',
  async run(input, { out, ...ports }) {
    const at = await placeOf(input, ports.stores);
    const from = input.flag('from-now') ? 'now' : 'where_it_stood';
    const enabled = await administer(enable, { ...at, from }, ports);
    printMade(facts(enabled), { json: input.flag('json'), out });
  },
};

export const webhookDisable: Command = {
  words: 'webhook disable',
  positionals,
  options,
  doc: 'send no events there until it is enabled again',
  async run(input, { out, ...ports }) {
    const disabled = await administer(disable, await placeOf(input, ports.stores), ports);
    printMade(facts(disabled), { json: input.flag('json'), out });
  },
};

export const webhookRemove: Command = {
  words: 'webhook remove',
  positionals,
  options,
  doc: 'send events there no more, at once and for good',
  async run(input, { out, ...ports }) {
    const { id } = await administer(remove, await placeOf(input, ports.stores), ports);
    printMade({ id, removed_at: ports.clock.now() }, { json: input.flag('json'), out });
  },
};

async function organizationOf(input: Input, stores: Stores): Promise<string> {
  return (await findOrganization(input.positionals[0] ?? '', stores)).name;
}

async function placeOf(input: Input, stores: Stores) {
  return {
    organization: await organizationOf(input, stores),
    webhookId: input.positionals[1] ?? '',
  };
}

function facts(webhook: ShownWebhook) {
  return {
    id: webhook.id,
    url: webhook.url,
    actions: webhook.actions,
    status: webhook.status,
    next_attempt_at: webhook.nextAttemptAt,
    last_success_at: webhook.lastSuccessAt,
    last_failure: webhook.lastFailure,
    disabled_because: webhook.disabledBecause,
  };
}
