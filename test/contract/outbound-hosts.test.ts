import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { closeAll, type Closers } from '#server/app/closers';
import { openOutbound } from '#server/app/open-outbound';
import { deleteOutboundHost, insertOutboundHost } from '#server/db/outbound-hosts';
import { jsonLog } from '#server/log/log';
import { checkedAddresses } from '#server/outbound/checked-addresses';
import { onEachDatabase, type TestDatabase } from '#support/databases';
import { madeAt } from '#support/made-records';
import { patient } from '#support/patient';

await onEachDatabase('allowed outbound hosts', ({ open }) => {
  let database: TestDatabase;
  let closers: Closers;
  beforeEach(async () => {
    [database, closers] = [await open(), []];
  });
  afterEach(async () => {
    await closeAll(closers);
    await database[Symbol.asyncDispose]();
  });

  const made = (host: string) => ({ host, note: '', createdBy: 'operator', createdAt: madeAt });
  const log = jsonLog('silent', { write: () => true });
  const guardOf = async () => {
    const options = { nodePath: process.execPath, outboundHosts: ['fixed.internal'] };
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it takes no more of the options
    const own = options as unknown as Parameters<typeof openOutbound>[0];
    return openOutbound(own, { ...database, log }, closers);
  };
  const reaches = async (guard: Awaited<ReturnType<typeof guardOf>>) =>
    checkedAddresses(new URL('http://10.20.0.7/'), guard).then(
      () => true,
      () => false,
    );

  test('what another process allows or removes is in effect in each process, without a restart', async () => {
    const guards = [await guardOf(), await guardOf()];
    const both = () => Promise.all(guards.map(reaches));
    expect(await both()).toEqual([false, false]);

    await insertOutboundHost(database.db, made('10.20.0.0/16'), 9);
    await vi.waitFor(async () => expect(await both()).toEqual([true, true]), patient);
    await deleteOutboundHost(database.db, '10.20.0.0/16');
    await vi.waitFor(async () => expect(await both()).toEqual([false, false]), patient);
    expect(guards[0]?.allowedHosts).toEqual(['fixed.internal']);
  });

  test('at most so many are stored, each once', async () => {
    const { db } = database;
    expect(await insertOutboundHost(db, made('a.internal'), 2)).toBe('done');
    expect(await insertOutboundHost(db, made('a.internal'), 2)).toBe('known');
    expect(await insertOutboundHost(db, made('b.internal'), 2)).toBe('done');
    expect(await insertOutboundHost(db, made('c.internal'), 2)).toBe('full');
    expect(await deleteOutboundHost(db, 'c.internal')).toBe(false);
  });
});
