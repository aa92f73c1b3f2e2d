import { expect, test } from 'vitest';

import {
  type AccessRules,
  type Audience,
  accessRulesText,
  groupsOfRules,
  readAccessRules,
} from '#server/model/tool-rights';

const rulesOf = (tools: AccessRules['named']['tool'], others: AccessRules['others'] = {}) => ({
  others,
  named: { tool: tools, prompt: new Map(), resource: new Map(), template: new Map() },
});

test.each(['transfer', '__proto__', 'constructor', 'toString', '', '\0', '\uD800', 'π "quoted"'])(
  'access rules: a rule for the name %j is the same after it was stored',
  (name) => {
    const rules = rulesOf(new Map([[name, new Set(['group_b', 'group_a'])]]));

    const text = accessRulesText(rules);

    expect(readAccessRules(text ?? '')).toEqual(rules);
  },
);

test('access rules: equal rules have equal texts, and none have none', () => {
  const one = rulesOf(
    new Map<string, Audience>([
      ['a', 'everyone'],
      ['b', new Set(['x', 'y'])],
    ]),
    { tool: new Set(['x']), prompt: 'everyone' },
  );
  const other = rulesOf(
    new Map<string, Audience>([
      ['b', new Set(['y', 'x'])],
      ['a', 'everyone'],
    ]),
    { tool: new Set(['x']) },
  );

  expect(accessRulesText(one)).toBe(accessRulesText(other));
  expect(accessRulesText(rulesOf(new Map(), { tool: 'everyone' }))).toBeNull();
});

test('access rules: the groups that they name are those of names and of defaults', () => {
  const rules = rulesOf(
    new Map<string, Audience>([
      ['a', 'everyone'],
      ['b', new Set(['x'])],
    ]),
    { resource: new Set(['y']), tool: 'everyone' },
  );

  expect(groupsOfRules(rules)).toEqual(new Set(['y', 'x']));
});
