import { expect, test } from 'vitest';

import { CallLog } from '#server/activity/call-log';
import { CallRetention } from '#server/activity/call-retention';
import { ContentLog, contentPurpose } from '#server/activity/content-log';
import {
  findContents,
  findContentSettings,
  insertContents,
  isAuditor,
  setAuditor,
  setContentSettings,
} from '#server/db/call-contents';
import { callIdAt, writeCalls } from '#server/db/calls';
import { insertOrganization } from '#server/db/organizations';
import { findMember, insertUser } from '#server/db/people';
import { deleteServer, insertServer } from '#server/db/servers';
import { updateSettings } from '#server/db/settings';
import type { Db } from '#server/db/transaction';
import { CallContents, ContentMemory, noContents } from '#server/model/call-contents';
import { masterKey } from '#server/secrets/master-key';
import { onEachDatabase } from '#support/databases';
import { madeCall } from '#support/made-calls';
import { stillClock } from '#support/still-clock';

const day = 86_400;
const both = { ...noContents, arguments: true, results: true };
const key = masterKey(new Uint8Array(32));
const failed = (error: unknown) => {
  throw error;
};

async function withServer(db: Db, organization = 'acme') {
  const organizationId = `org_${organization}`;
  await insertOrganization(db, { id: organizationId, name: organization, createdAt: 1 });
  await insertServer(db, {
    id: `srv_${organization}`,
    targetId: `tgt_${organization}`,
    organizationId,
    name: 'web',
    upstream: { kind: 'demo' },
    createdAt: 1,
  });
  return { organizationId, targetId: `tgt_${organization}` };
}

const kept = async (db: Db) =>
  (await db.selectFrom('call_content').select(['target_id', 'id']).orderBy('id').execute()).map(
    (row) => `${row.target_id} ${row.id.slice(0, 12)}`,
  );

function logOn(db: Db, { fails = () => false }: { readonly fails?: () => boolean } = {}) {
  const memory = new ContentMemory();
  const contents = new ContentLog({
    memory,
    sealing: key,
    settingsOf: (ids) => findContentSettings(db, ids),
    write: (rows) => (fails() ? Promise.reject(new Error('disk full')) : insertContents(db, rows)),
    nowMs: () => Date.now(),
    failed: () => undefined,
    dropped: () => undefined,
  });
  const log = new CallLog({
    write: (writes) => writeCalls(db, writes),
    contents,
    namesOf: async (kind, ids) =>
      new Map(ids.map((id) => [id, kind === 'organization' ? `org_${id}` : id])),
    node: 'one',
    nowMs: () => Date.now(),
    failed,
  });
  const call = madeCall({
    endpoint: { id: 'srv_acme', organization: 'acme', name: 'web' },
    target: { id: 'tgt_acme', name: 'web' },
  });
  const having = (value: object) => {
    const made = new CallContents('tgt_acme', both, memory);
    const message = Buffer.from(JSON.stringify(value));
    made.keep('arguments', message, { start: 0, end: message.length });
    return [made];
  };
  return { log, memory, call, having };
}

await onEachDatabase('arguments and results', ({ open }) => {
  test('are stored after the row of their call, and opened for this call only', async () => {
    await using stores = await open();
    const { db } = stores;
    const place = await withServer(db);
    await setContentSettings(db, place.targetId, both);
    const { log, memory, call, having } = logOn(db);
    log.note(call, undefined, having({ first: 1 }));
    const row = await log.begin(call);
    log.note(call, row, having({ second: 2 }));
    log.note({ ...call, end: 'refused' }, undefined, having({ third: 3 }));
    await log.close();
    const rows = await db.selectFrom('call_record').select(['id', 'outcome']).execute();
    const texts = await Promise.all(
      rows.map(async ({ id }) => {
        const [found] = await findContents(db, { ...place, id });
        return found && key.open(contentPurpose({ ...place, id }, 'arguments'), found.sealed);
      }),
    );

    expect(rows).toHaveLength(3);
    expect(texts.map(String).toSorted()).toEqual(['undefined', '{"first":1}', '{"second":2}']);
    expect(await findContents(db, { ...place, id: row.id })).toHaveLength(1);
    expect(await findContents(db, { ...place, organizationId: 'org_x', id: row.id })).toEqual([]);
    expect(memory.heldBytes).toBe(0);
  });

  test('that wait are not stored once an owner has turned that off', async () => {
    await using stores = await open();
    const { db } = stores;
    const { targetId } = await withServer(db);
    await setContentSettings(db, targetId, both);
    const { log, memory, call, having } = logOn(db);
    log.note(call, undefined, having({ a: 1 }));
    await setContentSettings(db, targetId, { ...both, arguments: false });
    await log.close();

    expect(await kept(db)).toEqual([]);
    expect(memory.heldBytes).toBe(0);
  });

  test('wait in memory while they cannot be written, and the rows of their calls do not', async () => {
    await using stores = await open();
    const { db } = stores;
    const { targetId } = await withServer(db);
    await setContentSettings(db, targetId, both);
    let isFull = true;
    const { log, memory, call, having } = logOn(db, { fails: () => isFull });
    log.note(call, undefined, having({ a: 1 }));
    await log.flush();
    const rows = await db.selectFrom('call_record').select('id').execute();
    const held = memory.heldBytes;
    isFull = false;
    await log.close();

    expect([rows.length, held > 0]).toEqual([1, true]);
    expect(await kept(db)).toHaveLength(1);
    expect(memory.heldBytes).toBe(0);
  });

  test('are deleted after their own days, never later than calls, and when their server is gone', async () => {
    await using stores = await open();
    const { db } = stores;
    const clock = stillClock();
    const places: { readonly organizationId: string; readonly targetId: string }[] = [];
    for (const name of ['acme', 'brief', 'gone', 'cleared'])
      places.push(await withServer(db, name));
    const ids = [8, 2, 0].map(
      (days) => `${callIdAt((clock.now() - days * day - 1) * 1000)}${'0'.repeat(12)}`,
    );
    for (const place of places) {
      await setContentSettings(db, place.targetId, { ...both, days: 7 });
      await insertContents(
        db,
        ids.map((id) => ({ ...place, id, kind: 'result', sealed: 's', isCut: false })),
      );
    }
    const many = Array.from({ length: 250 }, (_, place) => ({
      ...(places[2] ?? { organizationId: '', targetId: '' }),
      id: `${callIdAt(place)}${'0'.repeat(12)}`,
      kind: 'arguments' as const,
      sealed: 's',
      isCut: true,
    }));
    await insertContents(db, many);
    await updateSettings(db, 'org_brief', { callRetentionDays: 1 });
    await deleteServer(db, 'srv_gone');
    const deletedBeforeMs = clock.now() * 1000;
    await setContentSettings(db, 'tgt_cleared', { ...both, days: 7, deletedBeforeMs });
    const [cleared] = places.slice(3);
    const hidden = cleared && (await findContents(db, { ...cleared, id: ids[2] ?? '' }));
    const retention = new CallRetention({ db, clock, failed });
    await retention.run();
    await retention.close();

    const short = ids.map((id) => id.slice(0, 12));
    expect(hidden).toEqual([]);
    expect((await kept(db)).toSorted()).toEqual([
      `tgt_acme ${short[1]}`,
      `tgt_acme ${short[2]}`,
      `tgt_brief ${short[2]}`,
    ]);
  });

  test('are read by auditors: a right of one membership, which no role implies', async () => {
    await using stores = await open();
    const { db } = stores;
    const { organizationId } = await withServer(db);
    const { organizationId: other } = await withServer(db, 'other');
    for (const organization of [organizationId, other]) {
      await insertUser(
        db,
        { id: 'user_dana', email: 'dana@example.com', createdAt: 1 },
        { organizationId: organization, role: 'owner' },
      );
    }
    const before = await isAuditor(db, organizationId, 'user_dana');
    const given = await setAuditor(db, organizationId, 'user_dana', true);
    const again = await setAuditor(db, organizationId, 'user_dana', true);

    expect([before, given, again]).toEqual([false, true, false]);
    expect(await isAuditor(db, organizationId, 'user_dana')).toBe(true);
    expect(await isAuditor(db, other, 'user_dana')).toBe(false);
    expect(await findMember(db, organizationId, 'user_dana')).toMatchObject({ isAuditor: true });
    await setAuditor(db, organizationId, 'user_dana', false);
    expect(await isAuditor(db, organizationId, 'user_dana')).toBe(false);
  });
});
