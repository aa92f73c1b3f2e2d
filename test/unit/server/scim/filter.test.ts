import { expect, test } from 'vitest';

import { matches, parseFilter, parsePath, requiredTexts } from '#server/scim/filter';
import { groupKind, userKind } from '#server/scim/schemas';
import { ScimError } from '#server/scim/scim-error';

const dana = {
  id: 'su_Dana',
  externalId: 'X-1',
  userName: 'dana@example.com',
  name: { familyName: 'O"Malley', givenName: 'Dana' },
  title: 'VP (Sales) [EMEA]',
  active: true,
  emails: [
    { value: 'dana@example.com', type: 'work', primary: true },
    { value: 'dana@home.example', type: 'home' },
  ],
  meta: { created: '2026-11-20T10:00:00.000Z', resourceType: 'User' },
};
const isMatch = (filter: string) => matches(parseFilter(filter), dana, userKind);

/** RFC 7644 §3.4.2.2, figure 3 and others. */
test.each([
  ['userName eq "dana@example.com"', true],
  ['USERNAME EQ "DANA@EXAMPLE.COM"', true],
  ['urn:ietf:params:scim:schemas:core:2.0:User:userName sw "D"', true],
  ['id eq "su_dana"', false],
  ['externalId eq "X-1"', true],
  ['externalId eq "x-1"', false],
  ['name.familyName co "O\\"Malley"', true],
  ['name.familyName ew "LEY"', true],
  ['userName ne "dana@example.com"', false],
  ['displayName ne "x"', true],
  ['title pr', true],
  ['displayName pr', false],
  ['displayName eq null', true],
  ['title ne null', true],
  ['nickname pr', false],
  ['urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department eq "x"', false],
  ['active eq true', true],
  ['active eq "True"', true],
  ['active ne false', true],
  ['meta.created gt "2026-11-19T00:00:00Z"', true],
  ['meta.created lt "2026-11-19T00:00:00Z"', false],
  [
    'meta.created ge "2026-11-20T10:00:00.000Z" and meta.created le "2026-11-20T10:00:00.000Z"',
    true,
  ],
  ['emails co "home.example"', true],
  ['emails.value eq "dana@home.example"', true],
  ['emails[type eq "work" and value co "@example.com"]', true],
  ['emails[type eq "home" and value co "@example.com"]', false],
  ['emails[type eq "work"].value eq "DANA@example.com"', true],
  ['emails[type eq "home"].value eq "dana@example.com"', false],
  ['emails[not (type eq "work")]', true],
  ['title pr and userName sw "x" or active eq true', true],
  ['title pr and (userName sw "x" or active eq false)', false],
  ['not (userName sw "x")', true],
  ['title eq "VP (Sales) [EMEA]"', true],
  ['id eq 5', false],
])('filter: %s', (filter, expected) => {
  expect(isMatch(filter)).toBe(expected);
});

test.each([
  '',
  'userName',
  'userName eq',
  'userName eq dana',
  'userName eq "dana',
  'userName eq "\\x"',
  'userName is "dana"',
  'userName eq "a" and',
  'userName eq "a" "b"',
  '(userName eq "a"',
  'userName eq "a")',
  'not userName eq "a"',
  'emails[type eq "work"',
  'emails[type eq "work"].value',
  '1 eq 1',
  'user name eq "a"',
  'userName.eq "a"',
  'active gt true',
])('filter: %j is refused', (filter) => {
  expect(() => isMatch(filter)).toThrow(ScimError);
  expect(() => isMatch(filter)).toThrow(
    expect.objectContaining({ scimType: 'invalidFilter', status: 400 }),
  );
});

test.each([
  ['deep', '('.repeat(100_000)],
  ['nine levels', `${'('.repeat(9)}title pr${')'.repeat(9)}`],
  ['nine levels of not', `${'not ('.repeat(9)}title pr${')'.repeat(9)}`],
  ['nested brackets', 'emails['.repeat(9)],
  ['long', `userName eq "${'a'.repeat(2000)}"`],
  ['many conditions', Array.from({ length: 51 }, () => 'id pr').join(' or ')],
])('filter: a bomb is refused: %s', (_, filter) => {
  expect(() => parseFilter(filter)).toThrow(ScimError);
});

test('filter: as much as is allowed', () => {
  expect(isMatch(`${'('.repeat(8)}title pr${')'.repeat(8)}`)).toBe(true);
  expect(isMatch(Array.from({ length: 50 }, () => 'id pr').join(' and '))).toBe(true);
});

test('filter: names of object members that every object has match nothing', () => {
  expect(isMatch('constructor pr')).toBe(false);
  expect(isMatch('hasOwnProperty pr or toString pr or emails.constructor pr')).toBe(false);
});

test('filter: members of a group', () => {
  const group = { displayName: 'Sales', members: [{ value: 'su_1' }, { value: 'su_2' }] };
  const isIn = (filter: string) => matches(parseFilter(filter), group, groupKind);

  expect(isIn('members[value eq "su_2"]')).toBe(true);
  expect(isIn('members.value eq "su_3"')).toBe(false);
  expect(isIn('displayName eq "sales" and members eq "su_1"')).toBe(true);
});

test('filter: what every match has', () => {
  const texts = (filter: string) => requiredTexts(parseFilter(filter));

  expect(texts('userName eq "a" and active eq true')).toEqual([{ path: 'username', value: 'a' }]);
  expect(texts('userName eq "a" or id eq "b"')).toEqual([]);
  expect(texts('not (userName eq "a")')).toEqual([]);
  expect(texts('emails[type eq "work"].value eq "a"')).toEqual([
    { path: 'emails.type', value: 'work' },
    { path: 'emails.value', value: 'a' },
  ]);
});

test.each([
  ['active', { attribute: 'active', sub: undefined, filter: undefined }],
  ['name.givenName', { attribute: 'name', sub: 'givenName', filter: undefined }],
  [
    'urn:ietf:params:scim:schemas:core:2.0:User:name.givenName',
    { attribute: 'name', sub: 'givenName', filter: undefined },
  ],
  [
    'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:employeeNumber',
    {
      attribute: 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:employeeNumber',
      sub: undefined,
      filter: undefined,
    },
  ],
  [
    'emails[type eq "work"].value',
    {
      attribute: 'emails',
      sub: 'value',
      filter: {
        type: 'compare',
        path: { attribute: 'type', sub: undefined },
        operator: 'eq',
        value: 'work',
      },
    },
  ],
])('path: %s', (path, expected) => {
  expect(parsePath(path)).toEqual(expected);
});

test.each([
  '',
  '.',
  'name.',
  'emails[',
  'emails[type eq "work"',
  'a b',
  'members[value eq "1"]x',
  '5',
])('path: %j is refused', (path) => {
  expect(() => parsePath(path)).toThrow(expect.objectContaining({ scimType: 'invalidPath' }));
});
