import { expect, test } from 'vitest';

import { synchronize } from '#support/scim-synchronization';

test('synchronization: 300 users and 30 groups, every tenth user deactivated', async () => {
  expect(await synchronize({ users: 300, groups: 30 })).toEqual({
    users: 300,
    groups: 30,
    placed: 300 + 29 * 3,
    members: 270,
    statuses: [200, 201, 204],
  });
});
