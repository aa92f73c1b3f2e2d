import { expect, test } from 'vitest';
import { principalSeal } from '#server/gateway/principal-seal';
import { fakeMac } from '#support/fake-mac';

const ann = principalSeal('key:ann srv_1', fakeMac);

test('what was sealed for an owner opens for this owner, and is sealed alike each time', () => {
  const sealed = ann.seal('task', 'täsk.1');

  expect(sealed).toMatch(/^[\w-]{22}\.täsk\.1$/);
  expect(ann.seal('task', 'täsk.1')).toBe(sealed);
  expect(ann.open('task', sealed)).toBe('täsk.1');
});

test('it opens for no other principal, at no other server, and as nothing else', () => {
  const sealed = ann.seal('task', '1');

  expect(principalSeal('key:bob srv_1', fakeMac).open('task', sealed)).toBeUndefined();
  expect(principalSeal('key:ann srv_2', fakeMac).open('task', sealed)).toBeUndefined();
  expect(ann.open('state', sealed)).toBeUndefined();
});

test.each(['', '.', '1', 'a.1', `${'a'.repeat(22)}.1`, `${'ä'.repeat(22)}.1`])(
  'what nobody sealed does not open: %j',
  (value) => {
    expect(ann.open('task', value)).toBeUndefined();
  },
);

test('a change anywhere is noticed', () => {
  const sealed = ann.seal('state', 'abc');

  expect(ann.open('state', `${sealed}d`)).toBeUndefined();
  expect(ann.open('state', sealed.replace('.', ','))).toBeUndefined();
});
