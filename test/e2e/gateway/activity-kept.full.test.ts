import { expect, test } from 'vitest';

import { killedWhileRecording, lost, moments, twice } from '#support/killed-recording';

const kills = 100;

test('activity: a server that is killed a hundred times loses no call but those of the last seconds, and records none twice', async () => {
  const recording = await killedWhileRecording(moments(kills));
  const { answered } = recording;

  expect(answered.size).toBeGreaterThan(kills);
  expect(twice(recording)).toEqual([]);
  // A second until they are written, and what a busy machine adds.
  const old = [...answered].filter(([, { atMs, killedAtMs }]) => killedAtMs - atMs > 3000);
  expect(old.length).toBeGreaterThan(kills);
  expect(lost(recording, new Map(old).keys())).toEqual([]);
});

test('activity: where calls must be recorded, a server that is killed a hundred times loses none', async () => {
  const recording = await killedWhileRecording(moments(kills), {
    args: ['--call-log', 'required'],
  });
  const { answered, executed, rows } = recording;

  expect(answered.size).toBeGreaterThan(kills);
  expect(twice(recording)).toEqual([]);
  expect(lost(recording, executed)).toEqual([]);
  expect(lost(recording, answered.keys())).toEqual([]);
  const unfinished = rows.filter(({ outcome }) => outcome !== 'ok');
  expect(unfinished.length).toBeGreaterThan(0);
  expect(unfinished.filter(({ outcome }) => outcome !== 'unknown')).toEqual([]);
});

test('activity: a server that is stopped twenty times loses no call', async () => {
  const recording = await killedWhileRecording(moments(20), { signal: 'SIGTERM' });

  expect(recording.answered.size).toBeGreaterThan(20);
  expect(twice(recording)).toEqual([]);
  expect(lost(recording, recording.answered.keys())).toEqual([]);
});
