import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { examine, ok, type Check, type Finding } from '#proxy/status/checks';
import { fakeClock } from '#support/fake-clock';

const good: Check = { name: 'good', run: () => [ok('good', 'fine')] };
const bad: Check = { name: 'bad', run: () => Promise.reject(new Error('broken')) };
const bug: Check = {
  name: 'bug',
  run: () => {
    throw new TypeError('x is not a function');
  },
};
const stuck: Check = { name: 'stuck', run: () => new Promise(() => {}) };

function examining(checks: readonly Check[]) {
  const clock = fakeClock();
  const progress: string[] = [];
  const found: Finding[] = [];
  const stopping = new AbortController();
  const done = examine(checks, {
    clock,
    stop: stopping.signal,
    words: (error) => {
      if (error instanceof TypeError) throw error;
      return { message: error instanceof Error ? error.message : '', hint: 'mend it' };
    },
    progress: (name) => void progress.push(name),
    found: (finding) => void found.push(finding),
  });
  return { clock, done, progress, found, stop: () => stopping.abort() };
}

test('doctor: every check runs even if others fail, and each finding is reported immediately', async () => {
  const run = examining([bad, bug, good]);

  expect(await run.done).toMatchObject([
    { check: 'bad', state: 'fail', what: 'broken', hint: 'mend it' },
    { check: 'bug', state: 'fail' },
    { check: 'good', state: 'ok' },
  ]);
  expect(run.found).toHaveLength(3);
  expect(run.progress).toEqual([]);
});

test('doctor: a check that takes over a second is announced, and abandoned after half a minute', async () => {
  const run = examining([stuck, good]);
  await run.clock.advance(1);
  const announced = [...run.progress];
  await run.clock.advance(30);
  await setImmediate();

  expect(announced).toEqual(['stuck']);
  expect(await run.done).toMatchObject([
    { check: 'stuck', state: 'fail', what: 'no answer within 30 s' },
    { check: 'good', state: 'ok' },
  ]);
});

test('doctor: Ctrl-C ends the run without waiting for the check', async () => {
  const run = examining([good, stuck, good]);
  await run.clock.advance(1);
  run.stop();

  await expect(run.done).rejects.toMatchObject({ code: 'aborted', message: 'cancelled' });
  expect(run.found).toHaveLength(1);
});
