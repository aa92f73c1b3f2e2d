import { expect, test } from 'vitest';

import { CallLog } from '#server/activity/call-log';
import type { CallRecord } from '#server/model/calls';
import { madeCall } from '#support/made-calls';

const callsOf = (id: string) => madeCall({ credential: { type: 'key', id } });

/** A log and the rows that it has written. */
function logOf() {
  const rows: CallRecord[] = [];
  const log = new CallLog({
    write: async ({ calls }) => void rows.push(...calls),
    namesOf: async (_, ids) => new Map(ids.map((id) => [id, id])),
    node: 'node-1',
    nowMs: () => 1_800_000_000_000,
    failed: (error) => {
      throw error;
    },
  });
  return { log, rows };
}

test('call log: one caller cannot fill the queue, and what finds no room is counted', async () => {
  const { log, rows } = logOf();

  for (let at = 0; at < 30_000; at += 1) log.note(callsOf('loud'));
  for (let at = 0; at < 50; at += 1) log.note(callsOf('quiet'));
  const { dropped } = log;
  await log.close();
  const writtenOf = (id: string) => rows.filter(({ credential }) => credential.id === id).length;

  expect(writtenOf('quiet')).toBe(50);
  expect(writtenOf('loud')).toBe(30_000 - dropped);
  expect(dropped).toBeGreaterThanOrEqual(10_000);
});
