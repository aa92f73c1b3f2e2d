import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { insertAuditEvent } from '#server/db/audit';
import { insertOrganization } from '#server/db/organizations';
import { sqliteChanges } from '#server/db/sqlite/change-store';
import { claimPendingEvent, findWebhook, insertWebhook } from '#server/db/webhooks';
import { masterKey } from '#server/secrets/master-key';
import { OutboundError } from '#server/outbound/checked-addresses';
import type { OpenStores } from '#server/app/stores';
import { WebhookDeliveries } from '#server/webhooks/deliveries';
import { newWebhookSecret, webhookSecretPurpose } from '#server/webhooks/webhook-message';
import { newestEvents } from '#support/newest-events';
import { openDatabase } from '#support/open-database';
import { stillClock, type StillClock } from '#support/still-clock';
import { patient } from '#support/patient';

const sealing = masterKey(randomBytes(32));
const organizationId = 'org_acme';

let stores: OpenStores & AsyncDisposable;
let clock: StillClock;
let deliveries: WebhookDeliveries;
let sent: { id: string; type: string; host: string }[];
let answer: (host: string) => Promise<Response> | Response;
let faults: unknown[];
beforeEach(async () => {
  [stores, clock] = [await openDatabase(), stillClock()];
  await insertOrganization(stores.db, { id: organizationId, name: 'acme', createdAt: clock.now() });
  [sent, faults] = [[], []];
  answer = () => new Response(null, { status: 204 });
  const changes = sqliteChanges(stores.connection);
  deliveries = new WebhookDeliveries({
    db: stores.db,
    async ask(url, { headers, body, signal } = {}) {
      const { host } = new URL(url);
      const { type } = z.object({ type: z.string() }).parse(JSON.parse(body ?? ''));
      sent.push({ id: headers?.['webhook-id'] ?? '', type, host });
      const ended = new Promise<never>((_, reject) => {
        const hangUp = () => reject(new OutboundError('unreachable', 'hung up'));
        signal?.addEventListener('abort', hangUp, { once: true });
      });
      return Promise.race([answer(host), ended]);
    },
    allowedHosts: [],
    sealing,
    clock,
    random: () => 0,
    changeToken: () => changes.changeToken(),
    undelivered: () => undefined,
    failed: (error) => faults.push(error),
  });
});
afterEach(async () => {
  await deliveries.close();
  await stores[Symbol.asyncDispose]();
});

async function webhook(host: string, but: { sealedSecret?: string } = {}) {
  const id = `whk_${host}`;
  const sealedSecret = sealing.seal(webhookSecretPurpose(id), newWebhookSecret());
  const wish = { url: `https://${host}/in`, actions: [], sealedSecret, ...but };
  await insertWebhook(stores.db, { id, organizationId, createdAt: clock.now(), ...wish }, 100);
  return () => findWebhook(stores.db, organizationId, id);
}

const happen = (action: string) =>
  insertAuditEvent(stores.db, {
    at: clock.now(),
    actor: 'operator',
    organization: 'acme',
    action,
    target: undefined,
    address: undefined,
    requestId: undefined,
    outcome: 'done',
  });
const types = (host = 'siem.example') =>
  sent.filter((one) => one.host === host).map(({ type }) => type);

/** Looks until `done` holds, as the timer would. */
const lookUntil = (done: () => unknown) =>
  vi.waitFor(async () => {
    await deliveries.look();
    expect(await done()).toBeTruthy();
  }, patient);

test('events are delivered one after the other, however long each takes', async () => {
  const shown = await webhook('siem.example');
  const answers: (() => void)[] = [];
  answer = () =>
    new Promise((resolve) => {
      answers.push(() => resolve(new Response(null, { status: 200 })));
    });
  await happen('one');
  await happen('two');
  await lookUntil(() => answers.length === 1);
  await deliveries.look();
  const atOnce = types();
  answers.shift()?.();
  await lookUntil(() => answers.length === 1);
  answers.shift()?.();
  await lookUntil(async () => (await shown())?.lastSuccessAt);

  expect(atOnce).toEqual(['one']);
  expect(types()).toEqual(['one', 'two']);
});

test('an event that was not delivered is sent again under the same id, and later ones wait', async () => {
  const shown = await webhook('siem.example');
  answer = () => new Response(null, { status: 500 });
  await happen('one');
  await happen('two');
  await lookUntil(async () => (await shown())?.attempts === 1);
  clock.advance(4);
  await deliveries.look();
  clock.advance(1);
  await lookUntil(async () => (await shown())?.attempts === 2);
  answer = () => new Response(null, { status: 200 });
  clock.advance(10);
  await lookUntil(() => sent.length === 4);

  expect(types()).toEqual(['one', 'one', 'one', 'two']);
  expect(new Set(sent.slice(0, 3).map(({ id }) => id)).size).toBe(1);
  expect(sent[3]?.id).not.toBe(sent[0]?.id);
});

test('a busy receiver gets nothing until its Retry-After has passed', async () => {
  const shown = await webhook('siem.example');
  answer = () => new Response(null, { status: 503, headers: { 'retry-after': '600' } });
  await happen('one');
  await lookUntil(async () => (await shown())?.attempts === 1);

  expect((await shown())?.nextAttemptAt).toBe(clock.now() + 600);
});

test('a receiver that returns 410 gets no more events, and this is recorded', async () => {
  const shown = await webhook('siem.example');
  const other = await webhook('chat.example');
  answer = (host) => new Response(null, { status: host === 'siem.example' ? 410 : 200 });
  await happen('one');
  await lookUntil(() => types('chat.example').length === 2);
  await happen('two');
  await lookUntil(() => types('chat.example').length === 3);

  expect(types()).toEqual(['one']);
  expect((await shown())?.disabled).toEqual({ at: clock.now(), because: 'gone' });
  expect((await other())?.disabled).toBeUndefined();
  expect(types('chat.example')).toEqual(['one', 'webhook.disable', 'two']);
  expect(await newestEvents(stores.db, 2)).toContainEqual(
    expect.objectContaining({
      actor: 'system',
      action: 'webhook.disable',
      target: 'webhook:whk_siem.example gone',
    }),
  );
});

test('a receiver that fails for three days is given up', async () => {
  const shown = await webhook('siem.example');
  answer = () => new Response(null, { status: 500 });
  await happen('one');
  await lookUntil(async () => (await shown())?.attempts === 1);
  clock.advance(3 * 86_400 - 1);
  await lookUntil(async () => (await shown())?.attempts === 2);
  const before = (await shown())?.disabled;
  clock.advance(3600);
  await lookUntil(async () => (await shown())?.disabled);

  expect(before).toBeUndefined();
  expect((await shown())?.disabled?.because).toBe('failing');
});

test('a receiver that does not answer does not delay others', async () => {
  await webhook('slow.example');
  await webhook('siem.example');
  let free = () => {};
  answer = (host) =>
    host === 'siem.example'
      ? new Response(null, { status: 200 })
      : new Promise((resolve) => {
          free = () => resolve(new Response(null, { status: 200 }));
        });
  await happen('one');
  await happen('two');
  await lookUntil(() => types().length === 2);
  const slow = types('slow.example');
  free();

  expect(slow).toEqual(['one']);
});

test('a few receivers are sent to at a time, and each has its turn', async () => {
  for (let count = 0; count < 20; count += 1) await webhook(`r${count}.example`);
  const held: (() => void)[] = [];
  answer = () =>
    new Promise((resolve) => {
      held.push(() => resolve(new Response(null, { status: 200 })));
    });
  await happen('one');
  await lookUntil(() => held.length === 8);
  await deliveries.look();
  const most = held.length;
  await lookUntil(() => {
    for (const free of held.splice(0)) free();
    return sent.length === 20;
  });
  for (const free of held.splice(0)) free();

  expect(most).toBe(8);
  expect(new Set(sent.map(({ host }) => host)).size).toBe(20);
});

test('nothing is queried without a write or a retry that is due', async () => {
  const shown = await webhook('siem.example');
  await happen('one');
  const queries = vi.spyOn(stores.db, 'selectFrom');
  await lookUntil(async () => (await shown())?.lastSuccessAt);
  await vi.waitFor(async () => {
    const before = queries.mock.calls.length;
    await deliveries.look();
    expect(queries.mock.calls.length).toBe(before);
  }, patient);
  queries.mockClear();
  clock.advance(86_400);
  await deliveries.look();
  const whileNothingHappens = queries.mock.calls.length;
  await happen('two');
  await lookUntil(() => types().length === 2);

  expect(whileNothingHappens).toBe(0);
  expect(queries).toHaveBeenCalled();
});

test('a webhook whose secret cannot be opened pauses for a while, and the others continue', async () => {
  await webhook('lost.example', { sealedSecret: 'sealed by another key' });
  await webhook('siem.example');
  await happen('one');
  await lookUntil(() => types().length === 1 && faults.length === 1);
  await happen('two');
  await lookUntil(() => types().length === 2);

  expect(faults.length).toBe(1);
  expect(types('lost.example')).toEqual([]);
});

test('a delivery in progress at shutdown is no failure, and is sent again', async () => {
  const shown = await webhook('siem.example');
  answer = () => new Promise(() => {});
  await happen('one');
  await lookUntil(() => sent.length === 1);
  await deliveries.close();

  expect(await shown()).toMatchObject({ attempts: 0, lastFailure: undefined });
  expect(
    await claimPendingEvent(stores.db, 'whk_siem.example', {
      now: clock.now(),
      until: clock.now(),
    }),
  ).toMatchObject({
    event: { action: 'one' },
  });
});
