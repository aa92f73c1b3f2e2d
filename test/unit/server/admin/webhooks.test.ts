import { claimPendingEvent } from '#server/db/webhooks';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  webhookCreate,
  webhookList,
  webhookRead,
  webhookRemove,
  webhookUpdate,
  webhookDisable,
  webhookEnable,
  webhookRotate,
  webhookTest,
} from '#server/admin/webhooks';
import { administered, type Administered } from '#support/administered';
import { newestEvents } from '#support/newest-events';
import { deadWebhook } from '#support/webhook-setup';

let at: Administered;
const organization = 'acme';
beforeEach(async () => {
  at = await administered();
});
afterEach(() => at[Symbol.asyncDispose]());

const create = (fields: object = {}) =>
  at.perform(webhookCreate, { organization, url: deadWebhook, ...fields });
const made = async () => {
  const { id: webhookId, secret } = await create();
  return { place: { organization, webhookId }, secret };
};
const keptOf = () => JSON.stringify(at.stores.connection.prepare('select * from webhook').all());

test('a secret is in the answer that creates it, and is only stored sealed', async () => {
  const { place, secret } = await made();
  const rotated = await at.perform(webhookRotate, place);
  const shown = [
    await at.perform(webhookRead, place),
    await at.perform(webhookList, { organization }),
  ];

  expect([secret, rotated.secret]).toEqual([
    expect.stringMatching(/^whsec_/),
    expect.stringMatching(/^whsec_/),
  ]);
  expect(rotated.secret).not.toBe(secret);
  for (const one of [secret, rotated.secret]) {
    expect(JSON.stringify(shown)).not.toContain(one.slice(6));
    expect(keptOf()).not.toContain(one.slice(6));
  }
});

test('for a day after a rotation the previous secret signs as well', async () => {
  const { place } = await made();
  const { earlierSecretUntil } = await at.perform(webhookRotate, place);
  at.clock.advance(86_400);

  expect(earlierSecretUntil).toBe(at.clock.now());
  expect(await at.perform(webhookRead, place)).toMatchObject({ earlierSecretUntil: null });
});

describe('76: a URL is refused that does not lead to the public internet:', () => {
  test.each([
    'http://203.0.114.1/',
    'https://127.0.0.2/',
    'https://10.0.0.1/',
    'https://172.16.0.1/',
    'https://192.168.0.1/',
    'https://169.254.169.254/latest/meta-data',
    'https://0.0.0.0/',
    'https://[::1]/',
    'https://[fc00::1]/',
    'https://[::ffff:127.0.0.2]/',
    'https://2130706434/',
    'https://0177.0.0.2/',
    'https://0x7f.2/',
    'https://user@203.0.114.1/',
    'file:///etc/passwd',
    'no url',
  ])('%s', async (url) => {
    const refusal = { code: 'invalid', fields: [{ field: 'url', problem: expect.any(String) }] };
    const { place } = await made();

    await expect(create({ url })).rejects.toMatchObject(refusal);
    await expect(at.perform(webhookUpdate, { ...place, url })).rejects.toMatchObject(refusal);
    expect(await at.perform(webhookRead, place)).toMatchObject({ url: deadWebhook });
  });
});

test('an unknown host name is refused like one inside the network', async () => {
  await expect(create({ url: 'https://nobody.example/' })).rejects.toThrow(
    'url has a host that was not found, or is not on the public internet',
  );
  await expect(create({ url: 'https://10.0.0.1/' })).rejects.toThrow(
    'url is not on the public internet',
  );
});

test('an unknown event name is refused, and each name counts once', async () => {
  await expect(create({ actions: ['key.*'] })).rejects.toMatchObject({ code: 'invalid' });
  expect(await create({ actions: ['key.', 'sign-in', 'key.'] })).toMatchObject({
    actions: ['key.', 'sign-in'],
  });
});

test('an organization has at most ten webhooks', async () => {
  for (let count = 0; count < 10; count += 1) await create();

  await expect(create()).rejects.toMatchObject({ code: 'conflict' });
  await at.perform(webhookCreate, { organization: 'other', url: deadWebhook });
});

test('a test returns the answer of the receiver, and is recorded', async () => {
  const { place } = await made();

  expect(await at.perform(webhookTest, place)).toEqual({
    isDelivered: false,
    status: null,
    words: 'could not be reached',
  });
  expect((await newestEvents(at.stores.db, 1))[0]).toMatchObject({
    action: 'webhook.test',
    target: `webhook:${place.webhookId}`,
  });
});

test('a webhook is disabled, enabled, changed and removed', async () => {
  const { place } = await made();
  const disabled = await at.perform(webhookDisable, place);
  at.clock.advance(9);
  const still = await at.perform(webhookDisable, place);
  const enabled = await at.perform(webhookEnable, { ...place, from: 'now' });
  const changed = await at.perform(webhookUpdate, { ...place, actions: ['key.'] });
  await at.perform(webhookRemove, place);

  expect(disabled).toMatchObject({ status: 'disabled', disabledBecause: 'asked' });
  expect(still.disabledAt).toBe(disabled.disabledAt);
  expect(enabled).toMatchObject({ status: 'delivering', disabledAt: null });
  expect(changed).toMatchObject({ actions: ['key.'], url: deadWebhook });
  expect(await at.perform(webhookList, { organization })).toEqual({ items: [] });
  await expect(at.perform(webhookRead, place)).rejects.toMatchObject({ code: 'not_found' });
});

test('a webhook for future events begins with its own creation', async () => {
  const { place } = await made();
  const next = await claimPendingEvent(at.stores.db, place.webhookId, { now: 0, until: 0 });

  expect(next?.event).toMatchObject({ action: 'webhook.create', organization });
});
