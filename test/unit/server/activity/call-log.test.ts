import { expect, test, vi } from 'vitest';

import { CallLog } from '#server/activity/call-log';
import type { NodeGap } from '#server/db/call-gaps';
import type { CallRecord } from '#server/model/calls';
import { madeCall } from '#support/made-calls';
import { patient } from '#support/patient';

const callsOf = (id: string) => madeCall({ credential: { type: 'key', id } });

/** A log, and the rows of each of its transactions. */
function logOf() {
  const batches: (readonly CallRecord[])[] = [];
  const gaps: NodeGap[] = [];
  let nowMs = 1_800_000_000_000;
  const log = new CallLog({
    async write(writes) {
      batches.push(writes.calls);
      gaps.push(...writes.gaps);
    },
    namesOf: async (_, ids) => new Map(ids.map((id) => [id, id])),
    node: 'node-1',
    nowMs: () => (nowMs += 1),
    failed: (error) => {
      throw error;
    },
  });
  return { log, batches, gaps };
}

test('call log: one caller cannot fill the queue, and what finds no room is counted', async () => {
  const { log, batches, gaps } = logOf();

  for (let at = 0; at < 30_000; at += 1) log.note(callsOf('loud'));
  for (let at = 0; at < 50; at += 1) log.note(callsOf('quiet'));
  const { dropped } = log;
  await log.close();
  const writtenOf = (id: string) =>
    batches.flat().filter(({ credential }) => credential.id === id).length;

  expect(writtenOf('quiet')).toBe(50);
  expect(writtenOf('loud')).toBe(30_000 - dropped);
  expect(dropped).toBeGreaterThanOrEqual(10_000);
  const gap = { organizationId: 'acme', node: 'node-1', reason: 'queue_full', calls: dropped };
  expect(gaps).toMatchObject([gap]);
  expect(gaps[0]?.untilMs).toBe((gaps[0]?.fromMs ?? 0) + dropped - 1);
});

test('call log: one person cannot fill the queue for others who use the same client', async () => {
  const { log, batches } = logOf();
  const through = (userId: string) =>
    madeCall({ credential: { type: 'client', id: 'client_of_many' }, userId });

  for (let at = 0; at < 30_000; at += 1) log.note(through('loud'));
  for (let at = 0; at < 500; at += 1) log.note(through('quiet'));
  await log.close();

  expect(batches.flat().filter(({ person }) => person?.id === 'quiet')).toHaveLength(500);
});

test('call log: refusals of others who use the same client keep their tools', async () => {
  const { log, batches } = logOf();
  const refused = (userId: string, subject: string) =>
    madeCall({
      credential: { type: 'client', id: 'client_of_many' },
      userId,
      subject,
      end: 'refused',
      error: 'too_many_requests',
    });

  for (let at = 0; at < 100; at += 1) log.note(refused('loud', `tool_${at}`));
  log.note(refused('quiet', 'search'));
  await log.close();

  expect(batches.flat().at(-1)).toMatchObject({ person: { id: 'quiet' }, subject: 'search' });
});

test('call log: calls that are dropped while a gap is written are in the next one, and none is lost with a failed write', async () => {
  const gaps: NodeGap[] = [];
  const writing = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let attempts = 0;
  const log = new CallLog({
    async write(writes) {
      if (writes.gaps.length > 0) await writing[attempts++]?.promise;
      gaps.push(...writes.gaps);
    },
    namesOf: async (_, ids) => new Map(ids.map((id) => [id, id])),
    node: 'node-1',
    nowMs: () => 1_800_000_000_000,
    failed: () => undefined,
  });
  const drop = () => {
    const before = log.dropped;
    while (log.dropped < before + 3) log.note(callsOf('loud'));
  };

  drop();
  await vi.waitFor(() => expect(attempts).toBe(1), patient);
  writing[0]?.reject(new Error('disk full'));
  await vi.waitFor(() => expect(attempts).toBe(2), patient);
  drop();
  writing[1]?.resolve();
  await log.close();

  expect(gaps.map(({ calls }) => calls)).toEqual([3, 3]);
});

test('call log: what ends during a write waits for the next one, so that transactions stay large', async () => {
  const written: number[] = [];
  let meanwhile = 30;
  const log: CallLog = new CallLog({
    async write({ calls }) {
      written.push(calls.length);
      if (meanwhile-- > 0) log.note(callsOf('steady'));
    },
    namesOf: async (_, ids) => new Map(ids.map((id) => [id, id])),
    node: 'node-1',
    nowMs: () => 1_800_000_000_000,
    failed: (error) => {
      throw error;
    },
    rowsATransaction: 100,
  });

  for (let at = 0; at < 250; at += 1) log.note(callsOf('steady'));
  await log.flush();
  const first = [...written];
  await log.close();

  expect(first).toEqual([100, 100, 52]);
  expect(written).toEqual([100, 100, 52, 1, 1]);
});

test('call log: calls that begin in one turn share a transaction, and those that begin meanwhile the next', async () => {
  const { log, batches } = logOf();

  const first = [log.begin(callsOf('a')), log.begin(callsOf('b'))];
  const later = Promise.resolve().then(() => [log.begin(callsOf('c')), log.begin(callsOf('d'))]);
  await Promise.all([...first, ...(await later)]);
  const committed = batches.map((calls) => calls.map(({ credential }) => credential.id));
  await log.close();

  expect(committed).toEqual([
    ['a', 'b'],
    ['c', 'd'],
  ]);
});

test('call log: ends that cannot be written do not fill the memory, and are a gap', async () => {
  let isFull = false;
  const gaps: NodeGap[] = [];
  const log = new CallLog({
    async write(writes) {
      if (isFull) throw new Error('disk full');
      gaps.push(...writes.gaps);
    },
    namesOf: async (_, ids) => new Map(ids.map((id) => [id, id])),
    node: 'node-1',
    nowMs: () => 1_800_000_000_000,
    failed: () => undefined,
  });
  const row = await log.begin(callsOf('a'));
  isFull = true;

  for (let at = 0; at < 20_003; at += 1) log.note(callsOf('a'), row);

  expect(log.dropped).toBe(3);
  expect(log.pending).toBe(20_000);
  isFull = false;
  await log.close();
  expect(log.pending).toBe(0);
  expect(gaps).toMatchObject([{ organizationId: 'acme', reason: 'ends_dropped', calls: 3 }]);
});
