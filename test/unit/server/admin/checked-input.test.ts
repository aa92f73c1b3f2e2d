import { expect, test } from 'vitest';
import { z } from 'zod';
import { checkedInput } from '#server/admin/refusal';

const schema = z.strictObject({
  count: z.int().min(2).max(9),
  name: z.string().min(2).max(3),
  tools: z.array(z.string()).min(1).max(1),
});
const right = { count: 5, name: 'ab', tools: ['a'] };

test.each([
  [{ count: undefined }, 'count is missing'],
  [{ count: null }, 'count must be a number'],
  [{ count: 'many' }, 'count must be a number'],
  [{ count: Number.NaN }, 'count must be a number'],
  [{ count: 2.5 }, 'count must be a whole number'],
  [{ count: 1 }, 'count must be at least 2'],
  [{ count: 10 }, 'count must be at most 9'],
  [{ name: 7 }, 'name must be a string'],
  [{ name: 'a' }, 'name must have at least 2 characters'],
  [{ name: 'abcd' }, 'name must have at most 3 characters'],
  [{ tools: [] }, 'tools must contain at least 1 item'],
  [{ tools: ['a', 'b'] }, 'tools must contain at most 1 item'],
  [{ odd: 1 }, 'odd is unknown'],
])('the message about %j is: %s', (wrong, words) => {
  const check = () => checkedInput(schema, { ...right, ...wrong });

  expect(check).toThrow(expect.objectContaining({ code: 'invalid', message: words }));
});

test('a valid input is returned as the schema makes it', () => {
  expect(checkedInput(schema, right)).toEqual(right);
});
