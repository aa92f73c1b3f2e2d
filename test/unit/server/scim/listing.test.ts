import { expect, test } from 'vitest';

import { parseFilter } from '#server/scim/filter';
import { mostCompared, scan } from '#server/scim/listing';
import { userKind } from '#server/scim/schemas';

const query = {
  filter: parseFilter('userName sw "user"'),
  startIndex: 1,
  count: 1,
  projection: { only: undefined, without: new Set<string>() },
};

/** A database with this many users, and how many were read from it. */
async function scanned(all: number) {
  let read = 0;
  const result = scan(query, userKind, {
    async read({ limit }) {
      const users = Array.from({ length: Math.min(limit, all - read) }, (_, at) => ({
        id: `su_${read + at}`,
        userName: `user ${read + at}`,
      }));
      read += users.length;
      return users;
    },
    show: async (users) => users,
  });
  return { result, rows: () => read };
}

test('scan: all that a filter may be compared with is counted', async () => {
  const { result } = await scanned(mostCompared);

  expect(await result).toMatchObject({ total: mostCompared, items: [{ id: 'su_0' }] });
});

test('scan: a filter that would be compared with more is refused, and reading ends', async () => {
  const { result, rows } = await scanned(mostCompared * 5);

  await expect(result).rejects.toMatchObject({ status: 400, scimType: 'tooMany' });
  expect(rows()).toBeLessThan(mostCompared + 1000);
});
