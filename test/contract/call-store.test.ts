import { afterAll, beforeAll, expect, test } from 'vitest';

import { CallLog } from '#server/activity/call-log';
import { deleteOldCalls, writeCalls } from '#server/db/calls';
import { findCall, searchCalls, type CallFilter, type CallSearch } from '#server/db/find-calls';
import type { EndedCall } from '#server/model/calls';
import { applicationName } from '#server/usage/call-meter';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { madeCall as call } from '#support/made-calls';

const startMs = 1_800_000_000_000;
const organizationId = 'org_acme';

await onEachDatabase('recorded calls', ({ open }) => {
  let stores: TestDatabase;
  let nowMs = startMs;
  beforeAll(async () => {
    stores = await open();
  });
  afterAll(async () => {
    await stores[Symbol.asyncDispose]();
  });

  const logTo = (name: string) =>
    new CallLog({
      write: (writes) => writeCalls(stores.db, writes),
      namesOf: async (kind, ids) =>
        new Map(ids.map((id) => [id, kind === 'organization' ? `org_${id}` : `name of ${id}`])),
      node: name,
      nowMs: () => nowMs,
      failed: (error) => {
        throw error;
      },
    });
  const search = (filter: CallFilter, but: Partial<CallSearch> = {}) =>
    searchCalls(stores.db, {
      organizationId,
      filter,
      limit: 10,
      watermarkMs: nowMs + 1,
      ...but,
    });
  const subjects = (found: {
    readonly calls: readonly { readonly subject?: string | undefined }[];
  }) => found.calls.map(({ subject }) => subject);

  test('calls are found by each of their subjects, newest first', async () => {
    const log = logTo('one');
    const calls: Partial<EndedCall>[] = [
      { subject: 'read', userId: 'dana' },
      { subject: 'write', userId: 'dana', end: 'refused', error: 'insufficient_scope' },
      { subject: 'read', userId: 'eli', end: 'tool_error' },
      { subject: 'write', userId: 'eli', application: { text: 'Claude', source: 'client_info' } },
    ];
    for (const but of calls) {
      log.note(call(but));
      await log.flush();
      nowMs += 400_000;
    }

    expect(subjects(await search({}))).toEqual(['write', 'read', 'write', 'read']);
    expect(subjects(await search({ person: 'dana' }))).toEqual(['write', 'read']);
    expect(subjects(await search({ person: 'dana', end: 'failed' }))).toEqual(['write']);
    expect(subjects(await search({ names: ['read'], end: 'failed' }))).toEqual(['read']);
    expect(subjects(await search({ end: 'failed' }))).toEqual(['read', 'write']);
    expect(subjects(await search({ end: 'refused' }))).toEqual(['write']);
    expect(subjects(await search({ error: 'insufficient_scope' }))).toEqual(['write']);
    expect(subjects(await search({ application: 'Claude' }))).toEqual(['write']);
    expect(subjects(await search({ person: 'nobody' }))).toEqual([]);
    expect(subjects(await search({ names: [] }))).toEqual([]);
    await log.close();
  });

  test('pages follow each other in both directions, without gaps or repetitions', async () => {
    const log = logTo('pages');
    for (let place = 0; place < 25; place += 1) {
      log.note(
        call({
          endpoint: { id: 'ep_pages', organization: 'acme', name: 'pages' },
          subject: `p${place}`,
        }),
      );
    }
    await log.close();
    nowMs += 1000;

    const filter = { endpoint: 'ep_pages' };
    const first = await search(filter);
    const second = await search(filter, {
      from: { id: first.calls.at(-1)?.id ?? '', side: 'older' },
    });
    const third = await search(filter, {
      from: { id: second.calls.at(-1)?.id ?? '', side: 'older' },
    });
    const back = await search(filter, { from: { id: third.calls[0]?.id ?? '', side: 'newer' } });

    expect([first, second, third].flatMap(subjects)).toEqual(
      Array.from({ length: 25 }, (_, place) => `p${24 - place}`),
    );
    expect([first.hasMore, second.hasMore, third.hasMore]).toEqual([true, true, false]);
    expect(subjects(back)).toEqual(subjects(second));
  });

  test('equal refusals of a minute are one row with their number', async () => {
    const log = logTo('refusals');
    const refused = call({
      credential: { type: 'key', id: 'throttled' },
      end: 'refused',
      error: 'too_many_requests',
    });
    for (let times = 0; times < 3; times += 1) log.note(refused);
    await log.flush();
    for (let times = 0; times < 4; times += 1) log.note(refused);
    await log.flush();
    nowMs += 60_000;
    log.note(refused);
    await log.close();
    nowMs += 1000;

    const { calls } = await search({ credential: 'throttled' });

    expect(calls.map(({ times }) => times)).toEqual([1, 7]);
  });

  test('equal refusals of two people through one application are a row for each', async () => {
    const log = logTo('shared application');
    const credential = { type: 'client', id: 'shared' } as const;
    const refused = { credential, end: 'refused', error: 'closed_tool' } as const;
    for (const userId of ['user_ada', 'user_bo', 'user_ada'])
      log.note(call({ ...refused, userId }));
    await log.close();

    const { calls } = await search({ credential: 'shared' }, { watermarkMs: nowMs + 1 });

    expect(calls.map(({ person, times }) => [person?.id, times])).toEqual([
      ['user_bo', 1],
      ['user_ada', 2],
    ]);
  });

  test('patterns find tools and applications in upper and lower case', async () => {
    const log = logTo('patterns');
    const names = ['Refund_order', 'refund_list', 'refund[1]', 'refund%', 'refund\\x'];
    for (const subject of names) {
      const application = { text: `Claude for ${subject}`, source: 'client_info' } as const;
      log.note(call({ credential: { type: 'key', id: 'patterns' }, subject, application }));
    }
    await log.close();
    const found = async (filter: CallFilter) =>
      subjects(await search({ credential: 'patterns', ...filter })).toReversed();

    expect(await found({ names: ['refund*'] })).toEqual(names);
    expect(await found({ names: ['refund_order'] })).toEqual([]);
    expect(await found({ names: ['*_o*'] })).toEqual(['Refund_order']);
    expect(await found({ names: ['refund?*'] })).toEqual([]);
    expect(await found({ names: ['refund_*t'] })).toEqual(['refund_list']);
    expect(await found({ names: ['*[1]'] })).toEqual(['refund[1]']);
    expect(await found({ names: ['*d%*'] })).toEqual(['refund%']);
    expect(await found({ names: ['*\\x'] })).toEqual(['refund\\x']);
    expect(await found({ names: ['refund%', '*LIST'] })).toEqual(['refund_list', 'refund%']);
    expect(await found({ application: 'Claude*list' })).toEqual(['refund_list']);
    expect(await found({ application: 'claude*' })).toEqual(names);
    expect(await found({ application: '*', names: ['*'], end: 'failed' })).toEqual([]);
  });

  test('an application is found by its name with any version, and no other one', async () => {
    const log = logTo('versions');
    const credential = { type: 'key', id: 'versions' } as const;
    const texts = [
      'Claude',
      'Claude 1.2',
      'Claude/2',
      'Claude v3',
      'Claude Desktop 1',
      'Claudette 1',
      'claude 1',
      'Claude vX',
      'é 1',
      'é%',
    ];
    for (const text of texts) {
      const application = { text, source: 'client_info' } as const;
      log.note(call({ credential, subject: text, application }));
    }
    await log.close();
    const found = async (application: string) =>
      subjects(
        await search({ credential: 'versions', application, hasAnyVersion: true }),
      ).toReversed();

    expect(await found('Claude')).toEqual(['Claude', 'Claude 1.2', 'Claude/2', 'Claude v3']);
    expect(await found('Claude 1.2')).toEqual(['Claude 1.2']);
    expect(await found('é')).toEqual(['é 1']);
    expect(await found('*')).toEqual([]);
    for (const text of texts) expect(await found(applicationName(text))).toContain(text);
  });

  test('calls are found by the address that they carry, in any quarter of an hour', async () => {
    const log = logTo('addresses');
    for (const userId of ['gone', 'other', 'gone']) {
      log.note(call({ credential: { type: 'key', id: 'addresses' }, userId, subject: userId }));
      await log.flush();
      nowMs += 8 * 3_600_000;
    }
    await log.close();

    const found = await search({ personName: 'name of gone' });
    const nothing = await search({ personName: 'name of nobody' });

    expect(subjects(found)).toEqual(['gone', 'gone']);
    expect(nothing).toEqual({ calls: [], hasMore: false });
  });

  test('a credential of a type that this version does not know is no key', async () => {
    const log = logTo('later version');
    const credential = { type: 'key', id: 'later' } as const;
    log.note(call({ credential }));
    await log.close();
    await stores.db
      .updateTable('call_record')
      .set({ credential_type: 'passport' })
      .where('credential_id', '=', 'later')
      .execute();

    const [found] = (await search({ credential: 'later' })).calls;

    expect(found?.credential.type).toBe('unknown');
  });

  test('a pattern finds any number of names', async () => {
    const log = logTo('many names');
    const credential = { type: 'key', id: 'many_names' } as const;
    for (let place = 0; place < 2600; place += 1) {
      log.note(call({ credential, subject: `many_${place}` }));
      if (place % 500 === 499) await log.flush();
    }
    await log.close();

    const found = await search({ names: ['many_*'] }, { limit: 3000, budgetMs: 60_000 });

    expect(found.calls).toHaveLength(2600);
  });

  test('the URI of a resource is stored without user information, query and fragment', async () => {
    const log = logTo('uris');
    const credential = { type: 'key', id: 'uris' } as const;
    const uris = [
      'https://dana:p@ss@host/a@b?c=d',
      'postgres://dana@host/orders',
      'mailto:dana@example.com',
      'https://host/@dana',
      `https://${'x'.repeat(600)}:secret@host/long`,
    ];
    for (const subject of uris) log.note(call({ credential, subject }));
    await log.close();

    expect(subjects(await search({ credential: 'uris' })).toReversed()).toEqual([
      'https://…@host/a@b?…',
      'postgres://…@host/orders',
      'mailto:dana@example.com',
      'https://host/@dana',
      'https://…@host/long',
    ]);
  });

  test('a NUL character in a name does not keep other calls from being recorded', async () => {
    const log = logTo('nul');
    const credential = { type: 'key', id: 'with_nul' } as const;
    log.note(call({ credential, subject: 'a\0b', method: 'tools\0/call' }));
    log.note(call({ credential, subject: 'beside it' }));
    await log.close();

    const found = await search({ credential: 'with_nul' }, { watermarkMs: nowMs + 1 });

    expect(subjects(found)).toEqual(['beside it', 'a\uFFFDb']);
  });

  test('names are stored as they are', async () => {
    const log = logTo('names');
    const credential = { type: 'key', id: 'names' } as const;
    const names = ['a "b"', String.raw`a\b\"`, '{a,b}', 'null', ' a\tb\n', 'ä€😀'];
    for (const subject of names) log.note(call({ credential, subject }));
    await log.close();

    const found = await search({ credential: 'names' }, { watermarkMs: nowMs + 1 });

    expect(subjects(found).toReversed()).toEqual(names);
  });

  test('a caller with many different refusals has sixty rows a minute, and one for the rest', async () => {
    const log = logTo('kinds');
    const refused = { credential: { type: 'key', id: 'guessing' }, end: 'refused' } as const;
    for (let round = 0; round < 2; round += 1) {
      for (let guess = 0; guess < 80; guess += 1) {
        log.note(call({ ...refused, error: 'unknown_tool', subject: `guess ${guess}` }));
      }
    }
    await log.close();

    const filter = { credential: 'guessing' };
    const { calls } = await search(filter, { limit: 100, watermarkMs: nowMs + 1 });
    const rest = calls.filter(({ subject }) => subject === undefined);

    expect(calls).toHaveLength(61);
    expect(rest.map(({ times }) => times)).toEqual([40]);
  });

  test('a call that began is found without an end until it has ended, and is one row', async () => {
    const log = logTo('begun');
    const calling = call({ credential: { type: 'key', id: 'careful' } });
    const rows = await Promise.all([log.begin(calling), log.begin(calling)]);
    const before = await search({ credential: 'careful' });
    for (const row of rows) log.note({ ...calling, end: 'tool_error', bytesOut: 7 }, row);
    await log.close();

    expect(before.calls).toMatchObject([
      { end: 'unknown', durationMs: undefined },
      { end: 'unknown', durationMs: undefined },
    ]);
    const after = await search(
      { credential: 'careful', end: 'failed' },
      { watermarkMs: nowMs + 1 },
    );
    expect(after.calls.map(({ id }) => id)).toEqual(before.calls.map(({ id }) => id));
    expect(after.calls[0]).toMatchObject({ end: 'tool_error', durationMs: 12, bytesOut: 7 });
  });

  test('a call that cannot be recorded does not begin', async () => {
    const log = new CallLog({
      write: () => Promise.reject(new Error('disk full')),
      namesOf: async (_, ids) => new Map(ids.map((id) => [id, id])),
      node: 'full',
      nowMs: () => nowMs,
      failed: () => undefined,
    });

    await expect(log.begin(call({}))).rejects.toThrow('disk full');
    await log.close();
  });

  test('a call of another organization is not found', async () => {
    const [own] = (await search({})).calls;

    expect(await findCall(stores.db, organizationId, own?.id ?? '')).toEqual(own);
    expect(await findCall(stores.db, 'org_other', own?.id ?? '')).toBeUndefined();
    expect((await search({}, { organizationId: 'org_other' })).calls).toEqual([]);
  });

  test('old calls are deleted in small steps', async () => {
    const all = { ...organization(), beforeMs: nowMs + 1 };

    expect(await deleteOldCalls(stores.db, { ...all, limit: 20 })).toBe(20);
    while ((await deleteOldCalls(stores.db, { ...all, limit: 20 })) > 0);

    expect((await search({})).calls).toEqual([]);
  });

  const organization = () => ({ organizationId });

  test('calls are found by the device of the grant that they were made with', async () => {
    const log = logTo('devices');
    log.note(call({ subject: 'read', userId: 'gil', grantId: 'grant_1' }));
    log.note(call({ subject: 'write', userId: 'gil', grantId: 'grant_2' }));
    log.note(call({ subject: 'list', userId: 'gil' }));
    await log.flush();
    nowMs += 400_000;

    const all = await search({ person: 'gil' });
    const onOne = await search({ person: 'gil', device: 'name of grant_1' });
    expect(new Set(all.calls.map(({ deviceId }) => deviceId))).toEqual(
      new Set(['name of grant_1', 'name of grant_2', undefined]),
    );
    expect(subjects(onOne)).toEqual(['read']);
    expect(subjects(await search({ person: 'gil', device: 'another' }))).toEqual([]);
  });
});
