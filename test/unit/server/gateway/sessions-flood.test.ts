import { expect, test } from 'vitest';

import { LostCaller } from '#server/gateway/session-streams';
import { LegacySessions } from '#server/gateway/sessions';
import { mapSteps } from '#support/map-steps';

test('a principal that opens very many sessions loses only its own oldest ones', () => {
  const sessions = new LegacySessions({ now: () => 1 });
  const other = sessions.open('other', 'server', 'theirs');
  const first = sessions.open('flood', 'server', 'first');
  let last = first;
  for (let index = 0; index < 12_000; index += 1) last = sessions.open('flood', 'server', 'more');

  expect(sessions.find(other.id, 'other', 'server')).toMatchObject({ id: other.id });
  expect(sessions.find(first.id, 'flood', 'server')).toBeUndefined();
  expect(sessions.find(last.id, 'flood', 'server')).toMatchObject({ id: last.id });
});

test('233: starvation: an organization that opens very many sessions, for however many callers, takes none of another’s', () => {
  const sessions = new LegacySessions({ now: () => 1 }, undefined, 100);
  const open = (organization: string, principal: string) =>
    sessions.open(principal, 'server', 'theirs', { organization });
  const others = Array.from({ length: 20 }, (_, index) => open('other', `other ${index}`));
  const first = open('flood', 'caller');
  for (let index = 0; index < 300; index += 1) open('flood', `caller ${index}`);
  const last = open('other', 'one more');

  const kept = others.filter(({ id, principal }) => sessions.find(id, principal, 'server'));
  expect(kept).toHaveLength(20);
  expect(sessions.find(last.id, 'one more', 'server')).toBeDefined();
  expect(sessions.find(first.id, 'caller', 'server')).toBeUndefined();
  expect(sessions.count).toBe(100);
});

test('a closed session makes room for another', () => {
  const sessions = new LegacySessions({ now: () => 1 });
  const first = sessions.open('one', 'server', 'first');
  for (let index = 0; index < 12_000; index += 1) {
    sessions.close(sessions.open('one', 'server', 'short').id);
  }

  expect(sessions.find(first.id, 'one', 'server')).toMatchObject({ id: first.id });
});

test('the work for one owner does not grow with the sessions of all others', () => {
  const sessions = new LegacySessions({ now: () => 1 });
  for (let index = 0; index < 5000; index += 1) {
    sessions.open(`other ${index % 50}`, `server ${index % 7}`, 'theirs');
  }
  const mine = sessions.open('mine', 'server 1', 'first');
  for (let index = 0; index < 999; index += 1) sessions.open('mine', 'server 2', 'more');

  expect(mapSteps(() => sessions.keeps('mine server 1'))).toBe(0);
  // The principal has as many sessions as it may, so its oldest one makes room.
  expect(mapSteps(() => sessions.open('mine', 'server 2', 'one more'))).toBeLessThan(5);
  expect(sessions.find(mine.id, 'mine', 'server 1')).toBeUndefined();
  expect(mapSteps(() => sessions.endOf('other 3 server 3'))).toBeLessThan(200);
  expect(sessions.keeps('other 3 server 3')).toBe(false);
  expect(sessions.keeps('other 3 server 4')).toBe(true);
});

test('an event of a session with a thousand streams does not iterate over them', () => {
  const { streams } = new LegacySessions({ now: () => 1 }).open('mine', 'server', 'first');
  const open = () => streams.open('answer', new LostCaller(() => {}));
  const [stream] = Array.from({ length: 900 }, open);
  const event = { raw: Buffer.from('data: 1\n\n'), data: Buffer.from('1') };
  stream?.push(event);

  expect(mapSteps(() => stream?.push(event))).toBe(0);
});
