import { expect, test } from 'vitest';

import { SkillSessions } from '#server/upstreams/skills/sessions';

test('beyond the limit the oldest session is forgotten, and no longer listens', () => {
  const sessions = new SkillSessions(2);
  const listening = new AbortController();
  const ids = ['one', 'two', 'three'].map((owner, at) => {
    const id = sessions.open(owner, undefined, 0);
    const session = sessions.find(owner, id);
    if (session && at === 0) session.listening = listening;
    return id;
  });

  expect(sessions.find('one', ids[0])).toBeUndefined();
  expect(listening.signal.aborted).toBe(true);
  expect(sessions.find('two', ids[1])).toBeDefined();
  expect(sessions.find('three', ids[2])).toBeDefined();
});
