import { memoryUsage } from 'node:process';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';

import { CallLog } from '#server/activity/call-log';
import type { CallWrites } from '#server/db/calls';
import { searchCalls } from '#server/db/find-calls';
import { administered } from '#support/administered';
import { indexCalls, madeCall, recordCalls } from '#support/made-calls';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

const mebibyte = 'x'.repeat(1 << 20);
const mebibytes = 24;

/** A log whose rows nobody keeps. */
function forgetfulLog(written: (writes: CallWrites) => void = () => {}) {
  return new CallLog({
    write: async (writes) => written(writes),
    namesOf: async (_, ids) => new Map(ids.map((id) => [id, id])),
    node: 'node-1',
    nowMs: () => 1_800_000_000_000,
    failed: (error) => {
      throw error;
    },
  });
}

/** The bytes in use, in the heap and outside of it, after garbage collections: a buffer's memory is freed only in the turn after one. */
async function keptBytes(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    collectGarbage();
    await setImmediate();
  }
  const { heapUsed, external } = memoryUsage();
  return heapUsed + external;
}

/** A new string for each call, as the text of a request is. */
const long = (beginning: string, at: number) =>
  Buffer.from(`${beginning}_${at}${mebibyte}`).toString();

test.each([
  ['names of calls', (at: number) => ({ subject: long('name', at) })],
  [
    'URIs of calls',
    (at: number) => ({ method: 'resources/read', subject: `${long('a:b', at)}?x` }),
  ],
  [
    'URIs of calls with long queries',
    (at: number) => ({ method: 'resources/read', subject: `file:///a/${at}?${long('q', at)}` }),
  ],
  ['methods', (at: number) => ({ method: long('method', at) })],
  [
    'applications',
    (at: number) => ({ application: { text: long('app', at), source: 'user_agent' as const } }),
  ],
  [
    'names of refused calls',
    (at: number) => ({
      subject: long('name', at),
      end: 'refused' as const,
      error: 'insufficient_scope',
    }),
  ],
])('121: bounded rows: of %s of a mebibyte each, little is kept in memory', async (_, made) => {
  const log = forgetfulLog();
  const before = await keptBytes();

  for (let at = 0; at < mebibytes; at += 1) log.note(madeCall(made(at)));
  const waiting = (await keptBytes()) - before;
  await log.flush();
  const afterwards = (await keptBytes()) - before;
  await log.close();

  expect(waiting).toBeLessThan((mebibytes << 20) / 2);
  expect(afterwards).toBeLessThan((mebibytes << 20) / 2);
});

test('121: bounded rows: a row that was written when its call began has short texts, too', async () => {
  const log = forgetfulLog();

  const row = await log.begin(madeCall({ subject: mebibyte, method: mebibyte }));
  await log.close();

  expect([row.subject?.length, row.method?.length]).toEqual([200, 100]);
});

test('121: bounded rows: of ten thousand names within a minute, each is found, and the index is bounded', async () => {
  await using at = await administered();
  const { db } = at.stores;
  await at.person('owner');
  const calls = Array.from({ length: 10_000 }, (_, index) => ({ subject: `tool_${index}` }));
  const nowMs = at.clock.now() * 1000;
  await recordCalls(db, nowMs, calls);
  await indexCalls(db, nowMs * 2);
  const { count } = await db
    .selectFrom('call_subject')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('kind', '=', 'name')
    .executeTakeFirstOrThrow();
  const { id: organizationId } = await db
    .selectFrom('organization')
    .select('id')
    .where('name', '=', 'acme')
    .executeTakeFirstOrThrow();
  const find = async (name: string) => {
    const filter = { names: [name] };
    const search = { organizationId, filter, limit: 10, watermarkMs: nowMs + 60_000 };
    return (await searchCalls(db, search)).calls.map(({ subject }) => subject);
  };

  expect(count).toBe(2001);
  expect(await find('tool_0')).toEqual(['tool_0']);
  expect(await find('tool_9999')).toEqual(['tool_9999']);
  expect(await find('tool_10000')).toEqual([]);
});
