import { expect, test } from 'vitest';

import {
  agesOfLost,
  killedWhileRecording,
  type Killing,
  lost,
  moments,
  promisedMs,
  twice,
} from '#support/killed-recording';
import { suite } from '#support/suite';

const kills = 100;

function loseAtMostASecond(database: NonNullable<Killing['database']>): void {
  test(`activity: a server on ${database} that is killed a hundred times loses no call but those of the last second, and records none twice`, async () => {
    const recording = await killedWhileRecording(moments(kills), { database });
    const { answered } = recording;

    expect(answered.size).toBeGreaterThan(kills);
    expect(twice(recording)).toEqual([]);
    const isOld = (ageMs: number) => ageMs > promisedMs;
    const ages = [...answered.values()].map(({ atMs, killedAtMs }) => killedAtMs - atMs);
    expect(ages.filter(isOld).length).toBeGreaterThan(kills);
    expect(agesOfLost(recording).filter(isOld)).toEqual([]);
  });

  test(`activity: where calls must be recorded, a server on ${database} that is killed a hundred times loses none`, async () => {
    const args = ['--call-log', 'required'];
    const recording = await killedWhileRecording(moments(kills), { database, args });
    const { answered, executed, rows } = recording;

    expect(answered.size).toBeGreaterThan(kills);
    expect(twice(recording)).toEqual([]);
    expect(lost(recording, executed)).toEqual([]);
    expect(lost(recording, answered.keys())).toEqual([]);
    const unfinished = rows.filter(({ outcome }) => outcome !== 'ok');
    expect(unfinished.length).toBeGreaterThan(0);
    expect(unfinished.filter(({ outcome }) => outcome !== 'unknown')).toEqual([]);
  });

  test(`activity: a server on ${database} that is stopped twenty times loses no call`, async () => {
    const recording = await killedWhileRecording(moments(20), { database, signal: 'SIGTERM' });

    expect(recording.answered.size).toBeGreaterThan(20);
    expect(twice(recording)).toEqual([]);
    expect(lost(recording, recording.answered.keys())).toEqual([]);
  });
}

loseAtMostASecond('SQLite');

await suite('postgres', 'activity on PostgreSQL', () => {
  loseAtMostASecond('PostgreSQL');
});
