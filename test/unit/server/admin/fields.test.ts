import { expect, test } from 'vitest';
import { checkedInput } from '#server/admin/refusal';
import { fields, wholeNumber } from '#server/admin/fields';
import { z } from 'zod';

const schema = z.strictObject({
  days: fields.days(0, 90).optional(),
  from: wholeNumber().optional(),
});

test.each([[null], [''], [' '], [false], [true], [[]], [[7]], [{}], ['soon'], ['1.5'], [1.5]])(
  '%j is not a number of days, and does not mean none',
  (days) => {
    expect(() => checkedInput(schema, { days })).toThrow(
      expect.objectContaining({
        code: 'invalid',
        message: expect.stringMatching(/^days must be a (?:whole )?number$/),
      }),
    );
  },
);

test('digits of a form or a query are a number, within the same bounds', () => {
  expect(checkedInput(schema, { days: '7', from: '-1' })).toEqual({ days: 7, from: -1 });
  expect(checkedInput(schema, { days: 0 })).toEqual({ days: 0 });
  expect(checkedInput(schema, {})).toEqual({});
  expect(() => checkedInput(schema, { days: '91' })).toThrow('days must be at most 90');
  expect(() => checkedInput(schema, { days: -1 })).toThrow('days must be at least 0');
});

test('a redirect URI whose host no content security policy can name is refused with the name of the field', () => {
  const redirects = z.strictObject({ redirectUris: fields.redirectUris });
  const redirectUris = ['https://app.example/cb', 'https://e.test,evil/cb'];

  expect(() => checkedInput(redirects, { redirectUris })).toThrow(
    /^redirectUris\.1 has an invalid host/,
  );
});
