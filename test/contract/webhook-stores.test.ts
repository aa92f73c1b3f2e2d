import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import { insertAuditEvent } from '#server/db/audit';
import {
  type WebhookChange,
  listWebhooks,
  findWebhook,
  insertWebhook,
  updateWebhook,
  deleteWebhook,
  listPendingWebhooks,
  claimPendingEvent,
  markDelivered,
  markUndelivered,
} from '#server/db/webhooks';
import { insertOrganization } from '#server/db/organizations';
import { insertUser } from '#server/db/people';
import { onEachDatabase, type TestDatabase } from '#support/databases';

const now = 1_800_000_000;
/** A claim that ends at once. */
const atOnce = { now, until: now };

await onEachDatabase('webhooks', ({ open }) => {
  let stores: TestDatabase;
  let organizationId: string;
  let organization: string;
  beforeAll(async () => {
    stores = await open();
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    organizationId = `org_${randomUUID()}`;
    organization = organizationId.replace('_', '-');
    await insertOrganization(stores.db, { id: organizationId, name: organization, createdAt: now });
  });

  const add = async (actions: string[] = [], most = 10) => {
    const id = `whk_${randomUUID()}`;
    const place = { organizationId, url: 'https://siem.example/in', createdAt: now };
    const added = await insertWebhook(
      stores.db,
      { id, ...place, actions, sealedSecret: 's' },
      most,
    );
    return added ? id : undefined;
  };
  const added = async (actions?: string[]) => (await add(actions)) ?? expect.fail('not added');
  const happen = (action: string, at = now) =>
    insertAuditEvent(stores.db, {
      at,
      actor: 'operator',
      organization,
      action,
      target: undefined,
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    });
  const next = async (id: string) =>
    (await claimPendingEvent(stores.db, id, atOnce)) ?? expect.fail('nothing');
  const waits = async (id: string) =>
    (await listPendingWebhooks(stores.db)).some((waiting) => waiting.id === id);
  const read = async (id: string) => findWebhook(stores.db, organizationId, id);
  const change = (id: string, but: WebhookChange) =>
    updateWebhook(stores.db, organizationId, id, but);

  test('a new webhook gets the events from then on, in the order in which they were recorded', async () => {
    await happen('before');
    const id = await added();
    const isQuiet = !(await waits(id));
    // Events that were counted for a minute are recorded after events that happened later.
    for (const [action, when] of [
      ['one', now + 9],
      ['two', now],
      ['three', now + 5],
    ] as const) {
      await happen(action, when);
    }
    const seen = [];
    for (let pending; (pending = await claimPendingEvent(stores.db, id, atOnce));) {
      seen.push(pending.event.action);
      await markDelivered(stores.db, pending.place, pending.next, now);
    }

    expect(isQuiet).toBe(true);
    expect(seen).toEqual(['one', 'two', 'three']);
    expect(await waits(id)).toBe(false);
  });

  test('events of other organizations and unwanted events are skipped', async () => {
    const id = await added(['key.', 'sign-in']);
    const person = { id: `user_${randomUUID()}`, email: 'both@example.com', createdAt: now };
    await insertUser(stores.db, person, { organizationId, role: 'member' });
    for (let count = 0; count < 120; count += 1) await happen('keyed.thing');
    const isWaiting = await waits(id);
    const nothing = await claimPendingEvent(stores.db, id, atOnce);
    const isWaitingStill = await waits(id);
    const event = { at: now, actor: 'operator', organization: 'elsewhere', action: 'key.create' };
    const rest = { target: undefined, address: undefined, requestId: undefined };
    await insertAuditEvent(stores.db, { ...event, ...rest, outcome: 'done' });
    await happen('key.create');
    await happen('sign-in');

    expect([isWaiting, nothing, isWaitingStill]).toEqual([true, undefined, false]);
    expect(await next(id)).toMatchObject({ event: { action: 'key.create', organization } });
  });

  test('a person’s event outside any organization is delivered for each of theirs, in one order', async () => {
    const ids = [await added()];
    const other = `org_${randomUUID()}`;
    await insertOrganization(stores.db, { id: other, name: other.slice(4), createdAt: now });
    const user = { id: `user_${randomUUID()}`, email: `${other}@example.com`, createdAt: now };
    await insertUser(stores.db, user, { organizationId, role: 'member' });
    await insertUser(stores.db, user, { organizationId: other, role: 'member' });
    const actor = `user:${user.id}`;
    const nothing = { target: undefined, address: undefined, requestId: undefined };
    const signIn = { ...nothing, at: now, actor, organization: undefined, action: 'sign-in' };
    await insertAuditEvent(stores.db, { ...signIn, outcome: 'done' });
    await happen('later');

    const first = await next(ids[0] ?? '');
    await markDelivered(stores.db, first.place, first.next, now);

    expect(first.event).toMatchObject({ action: 'sign-in', organization });
    expect((await next(ids[0] ?? '')).event.action).toBe('later');
  });

  test.each([
    [[], 'key.create', true],
    [['key.create'], 'key.create', true],
    [['key.create'], 'key.created', false],
    [['key.'], 'key.create', true],
    [['key.'], 'keys.create', false],
    [['key.'], 'key-x.create', false],
    [['key'], 'key.create', false],
    [['sign-in', 'refresh-token.'], 'refresh-token.reuse', true],
    [['sign-in', 'refresh-token.'], 'sign-in', true],
  ])('with the actions %j, %s is delivered: %s', async (actions, action, isWanted) => {
    const id = await added(actions);
    await happen(action);

    expect((await claimPendingEvent(stores.db, id, atOnce))?.event.action).toBe(
      isWanted ? action : undefined,
    );
    expect(await waits(id)).toBe(isWanted);
  });

  test('a delivery is recorded once, and not if the webhook was changed in the meantime', async () => {
    const id = await added();
    await happen('one');
    const stale = await next(id);
    await change(id, { url: 'https://other.example/' });
    const overtaken = await markDelivered(stores.db, stale.place, stale.next, now);
    const fresh = await next(id);
    const first = await markDelivered(stores.db, fresh.place, fresh.next, now + 1);
    const second = await markDelivered(stores.db, fresh.place, fresh.next, now + 2);

    expect([overtaken, first, second]).toEqual([false, true, false]);
    expect(await read(id)).toMatchObject({ url: 'https://other.example/', lastSuccessAt: now + 1 });
  });

  test('failures are counted with the time of the first, until a delivery succeeds', async () => {
    const id = await added();
    await happen('one');
    for (const [attempt, when] of [now, now + 7].entries()) {
      const { place } = await next(id);
      const why = `answered ${500 + attempt}`;
      await markUndelivered(stores.db, place, {
        at: when,
        why,
        follows: { nextAttemptAt: when + 5 },
      });
    }
    const failing = await read(id);
    const waiting = (await listPendingWebhooks(stores.db)).find((one) => one.id === id);
    const { place, next: behind } = await next(id);
    await markDelivered(stores.db, place, behind, now + 20);

    expect(failing).toMatchObject({
      attempts: 2,
      failingSince: now,
      nextAttemptAt: now + 12,
      lastFailure: { at: now + 7, why: 'answered 501' },
    });
    expect(waiting).toEqual({ id, nextAttemptAt: now + 12 });
    expect(await read(id)).toMatchObject({
      attempts: 0,
      failingSince: undefined,
      nextAttemptAt: 0,
      lastSuccessAt: now + 20,
    });
  });

  test('a disabled webhook gets nothing, and resumes where it stopped or from now on', async () => {
    const [stays, skips] = [await added(), await added()];
    await happen('one');
    const { place } = await next(stays);
    const failure = { at: now, why: 'answered 410', follows: { disabled: 'gone' } } as const;
    const isDisabled = await markUndelivered(stores.db, place, failure);
    const isDisabledTwice = await markUndelivered(stores.db, place, failure);
    await change(skips, { disabled: { at: now, because: 'asked' } });
    const whileDisabled = [await claimPendingEvent(stores.db, stays, atOnce), await waits(skips)];
    const disabled = await read(stays);
    await change(stays, { enabled: 'continue' });
    await change(skips, { enabled: 'from-now' });
    await happen('two');

    expect([isDisabled, isDisabledTwice, ...whileDisabled]).toEqual([
      true,
      false,
      undefined,
      false,
    ]);
    expect(disabled?.disabled).toEqual({ at: now, because: 'gone' });
    expect(await read(stays)).toMatchObject({ disabled: undefined, attempts: 0 });
    expect((await next(stays)).event.action).toBe('one');
    expect((await next(skips)).event.action).toBe('two');
  });

  test('a webhook of a disabled organization gets nothing', async () => {
    const id = await added();
    await happen('one');
    const set = (at_: number | null) =>
      stores.db
        .updateTable('organization')
        .set({ disabled_at: at_ })
        .where('id', '=', organizationId)
        .execute();
    await set(now);
    const whileDisabled = [await waits(id), await claimPendingEvent(stores.db, id, atOnce)];
    await set(null);

    expect(whileDisabled).toEqual([false, undefined]);
    expect(await waits(id)).toBe(true);
  });

  test('the previous secret is kept beside the new one', async () => {
    const id = await added(['key.']);
    const secret = { sealedSecret: 't', earlierSecret: { sealed: 's', until: now + 5 } };

    expect(await change(id, { secret })).toBe(true);
    expect(await read(id)).toMatchObject({ ...secret, actions: ['key.'] });
  });

  test('an organization has at most the maximum number of webhooks, and sees no one else’s', async () => {
    const first = await added();
    const second = await add([], 1);
    const elsewhere = 'org_elsewhere';

    expect(second).toBeUndefined();
    expect(await findWebhook(stores.db, elsewhere, first)).toBeUndefined();
    expect(await updateWebhook(stores.db, elsewhere, first, { actions: [] })).toBe(false);
    expect(await deleteWebhook(stores.db, elsewhere, first)).toBe(false);
    expect((await listWebhooks(stores.db, organizationId)).map(({ id }) => id)).toEqual([first]);
    expect(await deleteWebhook(stores.db, organizationId, first)).toBe(true);
    expect(await listWebhooks(stores.db, organizationId)).toEqual([]);
  });

  test('removing an organization removes its webhooks', async () => {
    const id = await added();
    await stores.db.deleteFrom('organization').where('id', '=', organizationId).execute();

    expect(await read(id)).toBeUndefined();
  });
});
