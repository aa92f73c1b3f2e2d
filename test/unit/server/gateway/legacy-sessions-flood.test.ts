import { expect, test } from 'vitest';

import { LegacySessions } from '#server/gateway/legacy-sessions';

test('a principal who opens very many sessions loses its own oldest, and nobody else any', () => {
  const sessions = new LegacySessions({ now: () => 1 });
  const other = sessions.open('other', 'server', 'theirs');
  const first = sessions.open('flood', 'server', 'first');
  let last = first;
  for (let index = 0; index < 12_000; index += 1) last = sessions.open('flood', 'server', 'more');

  expect(sessions.find(other.id, 'other', 'server')).toMatchObject({ id: other.id });
  expect(sessions.find(first.id, 'flood', 'server')).toBeUndefined();
  expect(sessions.find(last.id, 'flood', 'server')).toMatchObject({ id: last.id });
});

test('a session that is closed makes room for another', () => {
  const sessions = new LegacySessions({ now: () => 1 });
  const first = sessions.open('one', 'server', 'first');
  for (let index = 0; index < 12_000; index += 1) {
    sessions.close(sessions.open('one', 'server', 'short').id);
  }

  expect(sessions.find(first.id, 'one', 'server')).toMatchObject({ id: first.id });
});
