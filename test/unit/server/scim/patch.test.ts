import { expect, test } from 'vitest';

import { applyOperations, readOperations } from '#server/scim/patch';
import { userKind } from '#server/scim/schemas';

const dana = {
  id: 'su_1',
  userName: 'dana@example.com',
  displayName: 'Dana',
  active: true,
  name: { givenName: 'Dana', familyName: 'Lee' },
  emails: [
    { value: 'dana@example.com', type: 'work', primary: true },
    { value: 'dana@home.example', type: 'home' },
  ],
};
const patched = (operations: unknown, from: object = dana) =>
  applyOperations(
    { ...from },
    readOperations({ schemas: ['any'], Operations: operations }, userKind),
  );

test.each([
  ['default Entra', [{ op: 'Replace', path: 'active', value: 'False' }], { active: 'False' }],
  [
    'Entra with aadOptscim062020',
    [{ op: 'replace', path: 'active', value: false }],
    { active: false },
  ],
  ['Okta', [{ op: 'replace', value: { active: false } }], { active: false }],
])('patch: deactivation as sent by %s', (_, operations, expected) => {
  expect(patched(operations)).toEqual({ ...dana, ...expected });
});

test('patch: dotted keys without a path, and keys of schemas that are not stored', () => {
  expect(
    patched([
      {
        op: 'Add',
        value: {
          'name.givenName': 'Dee',
          'NAME.FAMILYNAME': 'Li',
          displayName: 'Dee Li',
          'emails[type eq "work"].value': 'dee@example.com',
          'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department': 'Sales',
          'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User': { division: 'EMEA' },
          nickName: 'D',
          id: 'su_2',
        },
      },
    ]),
  ).toEqual({
    ...dana,
    displayName: 'Dee Li',
    name: { givenName: 'Dee', familyName: 'Li' },
    emails: [
      { value: 'dee@example.com', type: 'work', primary: true },
      { value: 'dana@home.example', type: 'home' },
    ],
  });
});

test('patch: a part of a value that does not exist yet is added, as Entra expects', () => {
  const none = { userName: 'x' };
  const path = 'emails[type eq "work"].value';

  expect(patched([{ op: 'Replace', path, value: 'x@example.com' }], none)).toEqual({
    userName: 'x',
    emails: [{ type: 'work', value: 'x@example.com' }],
  });
  expect(() =>
    patched([{ op: 'replace', path: 'emails[type co "w"].value', value: 'x@example.com' }], none),
  ).toThrow(expect.objectContaining({ scimType: 'noTarget' }));
});

test('patch: add appends and replaces equal values, replace replaces all, remove removes', () => {
  const other = { value: 'dana@other.example', type: 'other' };

  expect(patched([{ op: 'add', path: 'emails', value: [other] }]).emails).toEqual([
    ...dana.emails,
    other,
  ]);
  expect(
    patched([{ op: 'add', path: 'emails', value: { ...other, primary: true } }]).emails,
  ).toEqual([{ ...dana.emails[0], primary: false }, dana.emails[1], { ...other, primary: true }]);
  expect(patched([{ op: 'add', path: 'emails', value: [dana.emails[1]] }]).emails).toEqual(
    dana.emails,
  );
  expect(patched([{ op: 'replace', path: 'emails', value: [other] }]).emails).toEqual([other]);
  expect(patched([{ op: 'remove', path: 'emails[type eq "home"]' }]).emails).toEqual([
    dana.emails[0],
  ]);
  expect(patched([{ op: 'remove', path: 'emails[type eq "work"].primary' }]).emails).toEqual([
    { value: 'dana@example.com', type: 'work' },
    dana.emails[1],
  ]);
  expect(patched([{ op: 'remove', path: 'emails' }]).emails).toEqual([]);
  expect(patched([{ op: 'remove', path: 'name.givenName' }]).name).toEqual({ familyName: 'Lee' });
  expect(patched([{ op: 'remove', path: 'displayName' }])).not.toHaveProperty('displayName');
});

test('patch: a complex value keeps the parts that are not named', () => {
  expect(patched([{ op: 'replace', path: 'name', value: { givenName: 'Dee' } }]).name).toEqual({
    givenName: 'Dee',
    familyName: 'Lee',
  });
});

test('patch: operations take effect in their order', () => {
  expect(
    patched([
      { op: 'remove', path: 'emails' },
      { op: 'add', path: 'emails[type eq "work"].value', value: 'a@example.com' },
      { op: 'replace', path: 'emails.display', value: 'Work' },
    ]).emails,
  ).toEqual([{ type: 'work', value: 'a@example.com', display: 'Work' }]);
});

test('patch: what names an attribute that is not stored changes nothing', () => {
  expect(
    patched([
      { op: 'Add', path: 'phoneNumbers[type eq "work"].value', value: '1' },
      { op: 'Replace', path: 'name.nick', value: 'x' },
      { op: 'remove', path: 'addresses' },
    ]),
  ).toEqual(dana);
});

test('patch: a multi-valued attribute is limited in one operation and over several', () => {
  const values = (count: number, name = 'a') =>
    Array.from({ length: count }, (_, at) => ({ value: `${name}${at}@example.com` }));
  const add = (value: unknown) => ({ op: 'add', path: 'emails', value });
  const refused = expect.objectContaining({ status: 400, scimType: 'invalidValue' });
  const all = patched([{ op: 'replace', path: 'emails', value: values(100) }]);

  expect(all.emails).toHaveLength(100);
  for (const op of ['add', 'replace', 'remove']) {
    expect(() => patched([{ op, path: 'emails', value: values(130_000) }])).toThrow(refused);
  }
  expect(() => patched([add(values(60)), add(values(60, 'b'))])).toThrow(refused);
  expect(() =>
    patched(
      Array.from({ length: 101 }, (_, at) => ({
        op: 'add',
        path: `emails[type eq "t${at}"].value`,
        value: 'x@example.com',
      })),
    ),
  ).toThrow(refused);
});

test('patch: keys of a value without a path count as operations', () => {
  const value = Object.fromEntries(
    Array.from({ length: 1001 }, (_, at) => [`emails[type eq "t${at}"].value`, 'x@example.com']),
  );

  expect(() => patched([{ op: 'add', value }])).toThrow(
    expect.objectContaining({ status: 400, scimType: 'tooMany' }),
  );
});

test.each([
  ['no operations', [], 'invalidSyntax'],
  ['no list', {}, 'invalidSyntax'],
  ['an operation that is no object', ['x'], 'invalidSyntax'],
  ['an unknown op', [{ op: 'move', path: 'active', value: true }], 'invalidSyntax'],
  ['remove without a path', [{ op: 'remove' }], 'noTarget'],
  ['no value', [{ op: 'replace', path: 'active' }], 'invalidValue'],
  ['a text without a path', [{ op: 'replace', value: 'x' }], 'invalidValue'],
  ['a path that is no text', [{ op: 'replace', path: 5, value: 1 }], 'invalidPath'],
  ['a malformed path', [{ op: 'replace', path: 'emails[', value: 1 }], 'invalidPath'],
  [
    'a filter of a single value',
    [{ op: 'replace', path: 'name[a eq "b"]', value: 1 }],
    'invalidPath',
  ],
  ['the id', [{ op: 'replace', path: 'id', value: 'x' }], 'mutability'],
  ['too many', Array.from({ length: 1001 }, () => ({ op: 'remove', path: 'title' })), 'tooMany'],
])('patch: %s is refused', (_, operations, scimType) => {
  expect(() => patched(operations)).toThrow(expect.objectContaining({ status: 400, scimType }));
});
