import { expect, test } from 'vitest';

import {
  agesOfLost,
  killedWhileRecording,
  lost,
  promisedMs,
  twice,
} from '#support/killed-recording';

/** The delay that other tests on this machine add; `activity-kept.full.test.ts` runs alone, so it allows none. */
const busyMs = 2000;

/** How long the server lives each time, in milliseconds. */
const lives = [1000, 600, 300];
/** Long enough that some calls are too old to be lost. */
const longLives = [4000, 1500, 300];
/** The pause between two calls of a caller: a busy server would show no more here than one with occasional calls. */
const pauseMs = 10;

test('activity: a server that is stopped has recorded every call that it answered, once', async () => {
  const recording = await killedWhileRecording(lives, { signal: 'SIGTERM' });

  expect(recording.answered.size).toBeGreaterThan(lives.length);
  expect(twice(recording)).toEqual([]);
  expect(lost(recording, recording.answered.keys())).toEqual([]);
});

test('activity: a server that is killed loses no call but those of its last second, and records none twice', async () => {
  const recording = await killedWhileRecording(longLives, { pauseMs, isFromAnswer: true });
  const { answered, rows } = recording;

  expect(rows.length).toBeGreaterThan(0);
  expect(twice(recording)).toEqual([]);
  const isOld = (ageMs: number) => ageMs > promisedMs + busyMs;
  const ages = [...answered.values()].map(({ atMs, killedAtMs }) => killedAtMs - atMs);
  expect(ages.filter(isOld).length).toBeGreaterThan(0);
  expect(agesOfLost(recording).filter(isOld)).toEqual([]);
});

test('activity: where calls must be recorded, a server that is killed loses none, and one without an end is unknown', async () => {
  const args = ['--call-log', 'required'];
  const recording = await killedWhileRecording(lives, { args });
  const { answered, executed, rows } = recording;

  expect(answered.size).toBeGreaterThan(lives.length);
  expect(twice(recording)).toEqual([]);
  expect(lost(recording, executed)).toEqual([]);
  expect(lost(recording, answered.keys())).toEqual([]);
  const outcomes = new Set(rows.map(({ outcome }) => outcome));
  expect([...outcomes].toSorted()).toEqual(['ok', 'unknown']);
});
