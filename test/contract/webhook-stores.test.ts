import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { OpenStores } from '#server/stores';
import type { WebhookChange } from '#server/webhooks/webhook';
import { openDatabase } from '#support/open-database';

const now = 1_800_000_000;

describe.each([['SQLite', openDatabase]])('webhooks in %s', (_, open) => {
  let stores: OpenStores & AsyncDisposable;
  let organizationId: string;
  let organization: string;
  beforeAll(async () => {
    stores = await open();
  });
  afterAll(() => stores[Symbol.asyncDispose]());
  beforeEach(async () => {
    organizationId = `org_${randomUUID()}`;
    organization = organizationId.replace('_', '-');
    await stores.organizations.add({ id: organizationId, name: organization, createdAt: now });
  });

  const add = async (actions: string[] = [], most = 10) => {
    const id = `whk_${randomUUID()}`;
    const place = { organizationId, url: 'https://siem.example/in', createdAt: now };
    const added = await stores.webhooks.add({ id, ...place, actions, sealedSecret: 's' }, most);
    return added ? id : undefined;
  };
  const added = async (actions?: string[]) => (await add(actions)) ?? expect.fail('not added');
  const happen = (action: string, at = now) =>
    stores.audit.append({
      at,
      actor: 'operator',
      organization,
      action,
      target: undefined,
      address: undefined,
      requestId: undefined,
      outcome: 'done',
    });
  const next = async (id: string) => (await stores.backlog.next(id)) ?? expect.fail('nothing');
  const waits = async (id: string) =>
    (await stores.backlog.waiting()).some((waiting) => waiting.id === id);
  const read = async (id: string) => stores.webhooks.byId(organizationId, id);
  const change = (id: string, but: WebhookChange) =>
    stores.webhooks.change(organizationId, id, but);

  test('a new one gets what happens from then on, in the order in which it was written down', async () => {
    await happen('before');
    const id = await added();
    const isQuiet = !(await waits(id));
    // What was counted for a minute is written down behind what happened later.
    for (const [action, when] of [
      ['one', now + 9],
      ['two', now],
      ['three', now + 5],
    ] as const) {
      await happen(action, when);
    }
    const seen = [];
    for (let pending; (pending = await stores.backlog.next(id));) {
      seen.push(pending.event.action);
      await stores.backlog.delivered(pending.place, pending.next, now);
    }

    expect(isQuiet).toBe(true);
    expect(seen).toEqual(['one', 'two', 'three']);
    expect(await waits(id)).toBe(false);
  });

  test('events of others, and those that it does not want, are passed by', async () => {
    const id = await added(['key.', 'sign-in']);
    const person = { id: `user_${randomUUID()}`, email: 'both@example.com', createdAt: now };
    await stores.users.add(person, { organizationId, role: 'member' });
    for (let count = 0; count < 120; count += 1) await happen('keyed.thing');
    const isWaiting = await waits(id);
    const nothing = await stores.backlog.next(id);
    const isWaitingStill = await waits(id);
    const event = { at: now, actor: 'operator', organization: 'elsewhere', action: 'key.create' };
    const rest = { target: undefined, address: undefined, requestId: undefined };
    await stores.audit.append({ ...event, ...rest, outcome: 'done' });
    await happen('key.create');
    await happen('sign-in');

    expect([isWaiting, nothing, isWaitingStill]).toEqual([true, undefined, false]);
    expect(await next(id)).toMatchObject({ event: { action: 'key.create', organization } });
  });

  test('what one person does everywhere is an event of each organization, in one order', async () => {
    const ids = [await added()];
    const other = `org_${randomUUID()}`;
    await stores.organizations.add({ id: other, name: other.slice(4), createdAt: now });
    const user = { id: `user_${randomUUID()}`, email: `${other}@example.com`, createdAt: now };
    await stores.users.add(user, { organizationId, role: 'member' });
    await stores.users.add(user, { organizationId: other, role: 'member' });
    const actor = `user:${user.id}`;
    const nothing = { target: undefined, address: undefined, requestId: undefined };
    const signIn = { ...nothing, at: now, actor, organization: undefined, action: 'sign-in' };
    await stores.audit.append({ ...signIn, outcome: 'done' });
    await happen('later');

    const first = await next(ids[0] ?? '');
    await stores.backlog.delivered(first.place, first.next, now);

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
  ])('of %j, %s is wanted: %s', async (actions, action, isWanted) => {
    const id = await added(actions);
    await happen(action);

    expect((await stores.backlog.next(id))?.event.action).toBe(isWanted ? action : undefined);
    expect(await waits(id)).toBe(isWanted);
  });

  test('a delivery counts once, and none that a change overtook', async () => {
    const id = await added();
    await happen('one');
    const stale = await next(id);
    await change(id, { url: 'https://other.example/' });
    const overtaken = await stores.backlog.delivered(stale.place, stale.next, now);
    const fresh = await next(id);
    const first = await stores.backlog.delivered(fresh.place, fresh.next, now + 1);
    const second = await stores.backlog.delivered(fresh.place, fresh.next, now + 2);

    expect([overtaken, first, second]).toEqual([false, true, false]);
    expect(await read(id)).toMatchObject({ url: 'https://other.example/', lastSuccessAt: now + 1 });
  });

  test('a failure is counted and keeps when failing began, until it succeeds', async () => {
    const id = await added();
    await happen('one');
    for (const [attempt, when] of [now, now + 7].entries()) {
      const { place } = await next(id);
      const why = `answered ${500 + attempt}`;
      await stores.backlog.failed(place, { at: when, why, follows: { nextAttemptAt: when + 5 } });
    }
    const failing = await read(id);
    const waiting = (await stores.backlog.waiting()).find((one) => one.id === id);
    const { place, next: behind } = await next(id);
    await stores.backlog.delivered(place, behind, now + 20);

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

  test('a disabled one gets nothing, and goes on where it stood or from now on', async () => {
    const [stays, skips] = [await added(), await added()];
    await happen('one');
    const { place } = await next(stays);
    const failure = { at: now, why: 'answered 410', follows: { disabled: 'gone' } } as const;
    const isDisabled = await stores.backlog.failed(place, failure);
    const isDisabledTwice = await stores.backlog.failed(place, failure);
    await change(skips, { disabled: { at: now, because: 'asked' } });
    const whileDisabled = [await stores.backlog.next(stays), await waits(skips)];
    const disabled = await read(stays);
    await change(stays, { enabled: 'where-it-stood' });
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

  test('a disabled organization is sent nothing', async () => {
    const id = await added();
    await happen('one');
    const set = (at_: number | null) =>
      stores.db
        .updateTable('organization')
        .set({ disabled_at: at_ })
        .where('id', '=', organizationId)
        .execute();
    await set(now);
    const whileDisabled = [await waits(id), await stores.backlog.next(id)];
    await set(null);

    expect(whileDisabled).toEqual([false, undefined]);
    expect(await waits(id)).toBe(true);
  });

  test('an earlier secret stays beside the new one', async () => {
    const id = await added(['key.']);
    const secret = { sealedSecret: 't', earlierSecret: { sealed: 's', until: now + 5 } };

    expect(await change(id, { secret })).toBe(true);
    expect(await read(id)).toMatchObject({ ...secret, actions: ['key.'] });
  });

  test('an organization has no more than so many, and sees no other one’s', async () => {
    const first = await added();
    const second = await add([], 1);
    const elsewhere = 'org_elsewhere';

    expect(second).toBeUndefined();
    expect(await stores.webhooks.byId(elsewhere, first)).toBeUndefined();
    expect(await stores.webhooks.change(elsewhere, first, { actions: [] })).toBe(false);
    expect(await stores.webhooks.remove(elsewhere, first)).toBe(false);
    expect((await stores.webhooks.list(organizationId)).map(({ id }) => id)).toEqual([first]);
    expect(await stores.webhooks.remove(organizationId, first)).toBe(true);
    expect(await stores.webhooks.list(organizationId)).toEqual([]);
  });

  test('an organization that is removed takes its webhooks along', async () => {
    const id = await added();
    await stores.db.deleteFrom('organization').where('id', '=', organizationId).execute();

    expect(await read(id)).toBeUndefined();
  });
});
