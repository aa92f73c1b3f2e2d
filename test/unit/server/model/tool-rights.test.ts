import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import {
  type AccessRules,
  type Audience,
  type Offered,
  type PrimitiveKind,
  type RightsSource,
  type ToolCaller,
  type ToolSelection,
  ToolRights,
  accessRulesText,
  allows,
  readAccessRules,
  readOffered,
} from '#server/model/tool-rights';
import { ensure, testProperties } from '#support/properties';

type Named = Partial<Record<PrimitiveKind, Record<string, Audience>>>;

function rulesOf(named: Named, others: AccessRules['others'] = {}): AccessRules {
  const of = (kind: PrimitiveKind) => new Map(Object.entries(named[kind] ?? {}));
  return {
    others,
    named: {
      tool: of('tool'),
      prompt: of('prompt'),
      resource: of('resource'),
      template: of('template'),
    },
  };
}

const nothing: Offered = { withheld: {}, open: {}, readOnly: new Set() };
const sourceOf = (but: Partial<RightsSource>): RightsSource => ({
  hiddenTools: [],
  offered: nothing,
  ...but,
});
const member = (...groups: string[]): ToolCaller => ({ groups: new Set(groups), selections: [] });
const credential = (...selections: ToolSelection[]): ToolCaller => ({ selections });
const chosen = (but: Partial<Extract<ToolSelection, { type: 'chosen' }>>): ToolSelection => ({
  type: 'chosen',
  tools: [],
  prompts: [],
  resources: [],
  ...but,
});
const sales = new Set(['sales']);
const support = new Set(['support']);
const nobody = new Set<string>();

describe('the verdict about a tool', () => {
  const rules = rulesOf({ tool: { drop: sales, query: 'everyone' } }, { tool: support });
  const offered: Offered = {
    withheld: { tool: new Set(['new']) },
    open: { tool: new Set(['drop', 'query', 'list', 'new', 'hide']) },
    readOnly: new Set(['query', 'list']),
  };
  const source = sourceOf({ hiddenTools: ['hide'], offered, rules });

  test.each<[string, ToolCaller, string, string]>([
    ['of a group', member('sales'), 'drop', 'group'],
    ['of another group', member('support'), 'drop', 'other_group'],
    ['of no group', member(), 'drop', 'other_group'],
    ['that everyone may use', member(), 'query', 'everyone'],
    ['without a rule of its own', member('support'), 'list', 'group'],
    ['without a rule of its own, to another group', member('sales'), 'list', 'other_group'],
    ['that is hidden', member('sales', 'support'), 'hide', 'hidden'],
    ['that is withheld', member('sales', 'support'), 'new', 'withheld'],
    ['that no list has', member('sales', 'support'), 'other', 'unknown'],
    ['in other case', member('sales', 'support'), 'Drop', 'unknown'],
    ['of a group, to a credential of no person', credential(), 'drop', 'no_person'],
    ['that was chosen for it', credential(chosen({ tools: ['drop'] })), 'drop', 'chosen'],
    ['that was not chosen', credential(chosen({ tools: ['query'] })), 'drop', 'not_chosen'],
    ['that is not read-only', credential({ type: 'read-only' }), 'drop', 'not_read_only'],
    ['that is read-only', credential({ type: 'read-only' }), 'query', 'everyone'],
    ['of a group, to all', credential({ type: 'all' }), 'drop', 'no_person'],
    [
      'that one of two selections lacks',
      credential(chosen({ tools: ['drop'] }), { type: 'read-only' }),
      'drop',
      'not_read_only',
    ],
    [
      'of a group, to a grant that is limited to another',
      { groups: sales, selections: [chosen({ tools: ['query'] })] },
      'drop',
      'not_chosen',
    ],
  ])('%s', (_, caller, name, verdict) => {
    expect(new ToolRights(source, caller).verdict('tool', name)).toBe(verdict);
  });

  test('does not need a list to have been read', () => {
    const unread = sourceOf({ rules });

    expect(new ToolRights(unread, member('sales')).verdict('tool', 'drop')).toBe('group');
    expect(new ToolRights(unread, member('sales')).verdict('tool', 'other')).toBe('other_group');
  });

  test('names that all objects have are like any other', () => {
    const odd = sourceOf({ rules: rulesOf({ tool: { constructor: sales } }) });

    expect(new ToolRights(odd, member()).verdict('tool', 'constructor')).toBe('other_group');
    expect(new ToolRights(odd, member()).verdict('tool', 'toString')).toBe('everyone');
  });
});

describe('the verdict about a resource', () => {
  const rules = rulesOf({
    resource: {
      'file:///payroll/2026.csv': sales,
      'file:///payroll/notice.txt': 'everyone',
      'file:///payroll/../x': 'everyone',
      'file:///x': nobody,
    },
    template: {
      'file:///payroll/{+name}': support,
      'file:///{+path}': 'everyone',
      'db://{schema}/{table}': 'everyone',
      'db://private/{+rest}': sales,
    },
  });
  const verdictOf = (caller: ToolCaller, uri: string, others?: Audience) => {
    const but = others === undefined ? rules : { ...rules, others: { resource: others } };
    return new ToolRights(sourceOf({ rules: but }), caller).verdict('resource', uri);
  };

  test.each<[string, ToolCaller, string, string]>([
    ['with a rule of its own', member('sales'), 'file:///payroll/2026.csv', 'group'],
    [
      'whose own rule closes, in spite of a template',
      member('support'),
      'file:///payroll/2026.csv',
      'other_group',
    ],
    [
      'whose own rule opens, in spite of a template',
      member(),
      'file:///payroll/notice.txt',
      'everyone',
    ],
    [
      'that an upstream may read as one that is closed',
      member('support'),
      'file:///payroll/a/../2026.csv',
      'other_group',
    ],
    [
      'that an upstream may read as one of the group, but that has no rule',
      member('sales'),
      'file:///payroll/%32026.csv',
      'other_group',
    ],
    ['whose own rule opens, though it is another', member(), 'file:///payroll/../x', 'everyone'],
    ['of a template', member('support'), 'file:///payroll/2025.csv', 'group'],
    [
      'that one template closes and another opens',
      member('sales'),
      'file:///payroll/2025.csv',
      'other_group',
    ],
    [
      'that a template closes in another spelling',
      member('sales'),
      'file:///a/..//Payroll/2025.csv',
      'other_group',
    ],
    ['that a template opens', member(), 'file:///public/a', 'everyone'],
    ['of a group, to a credential of no person', credential(), 'db://private/a', 'no_person'],
    [
      'that was chosen for it',
      credential(chosen({ resources: ['db://private/a/b'] })),
      'db://private/a/b',
      'chosen',
    ],
    [
      'of a template that was chosen for it',
      credential(chosen({ resources: ['db://private/{+rest}'] })),
      'db://private/a/b',
      'chosen',
    ],
    [
      'of a template that was chosen, with dots',
      credential(chosen({ resources: ['db://private/{+rest}'] })),
      'db://private/a/../b',
      'not_chosen',
    ],
    [
      'that was not chosen',
      credential(chosen({ resources: ['db://private/a'] })),
      'db://PRIVATE/a',
      'not_chosen',
    ],
  ])('%s', (_, caller, uri, verdict) => {
    expect(verdictOf(caller, uri)).toBe(verdict);
  });

  test('without any rule that matches is the one about others', () => {
    expect(verdictOf(member(), 'note:///a')).toBe('everyone');
    expect(verdictOf(member(), 'note:///a', sales)).toBe('other_group');
    expect(verdictOf(member('sales'), 'note:///a', sales)).toBe('group');
  });

  test('is the one about others if a template opens it only to some upstreams', () => {
    expect(verdictOf(member(), 'db://a/b%2Fc', sales)).toBe('other_group');
    expect(verdictOf(member(), 'db://a/b', sales)).toBe('everyone');
  });

  test('closes what is too long to be compared, unless no rule closes anything', () => {
    const long = `note:///${'a'.repeat(9000)}`;

    expect(verdictOf(member(), long)).toBe('other_group');
    expect(
      new ToolRights(
        sourceOf({ rules: rulesOf({ resource: { 'note:///b': 'everyone' } }) }),
        member(),
      ).verdict('resource', long),
    ).toBe('everyone');
  });

  test('withheld templates close what some upstream may read as theirs, but for a URI with a rule of its own', () => {
    const source = sourceOf({
      offered: { ...nothing, withheld: { template: new Set(['file:///payroll/{+name}']) } },
      rules: rulesOf({ resource: { 'file:///payroll/a': 'everyone' } }),
    });
    const rights = new ToolRights(source, member());

    expect(rights.verdict('template', 'file:///payroll/{+name}')).toBe('withheld');
    expect(rights.verdict('resource', 'file:///PAYROLL/b')).toBe('withheld');
    expect(rights.verdict('resource', 'file:///payroll/a')).toBe('everyone');
    expect(rights.verdict('resource', 'file:///public/a')).toBe('everyone');
  });

  test('names on no accepted list are unknown, unless an accepted template covers them', () => {
    const open = {
      resource: new Set(['file:///a']),
      template: new Set(['file:///docs/{name}']),
    };
    const rights = new ToolRights(sourceOf({ offered: { ...nothing, open } }), member());

    expect(rights.verdict('resource', 'file:///a')).toBe('everyone');
    expect(rights.verdict('resource', 'file:///docs/b')).toBe('everyone');
    expect(rights.verdict('resource', 'file:///docs/../b')).toBe('unknown');
    expect(rights.verdict('resource', 'file:///b')).toBe('unknown');
  });
});

test('a template is asked for by its text, and without a rule of its own like other resources', () => {
  const rules = rulesOf({ template: { 'db://{t}': sales } }, { resource: support });
  const verdict = (caller: ToolCaller, text: string) =>
    new ToolRights(sourceOf({ rules }), caller).verdict('template', text);

  expect(verdict(member('sales'), 'db://{t}')).toBe('group');
  expect(verdict(member('sales'), 'db://{u}')).toBe('other_group');
  expect(verdict(credential(chosen({ resources: ['db://{t}'] })), 'db://{t}')).toBe('chosen');
});

describe('what rights say of a kind', () => {
  test('without decisions, nothing is restricted, ruled or unread', () => {
    const rights = new ToolRights(sourceOf({}), member());

    expect(
      (['tool', 'prompt', 'resource', 'template'] as const).map((kind) => [
        rights.restricts(kind),
        rights.hasRules(kind),
        rights.isUnread(kind),
      ]),
    ).toEqual(Array.from({ length: 4 }, () => [false, false, false]));
    expect(rights.dependsOnCaller).toBe(false);
  });

  test('rules about one kind restrict no other', () => {
    const rights = new ToolRights(sourceOf({ rules: rulesOf({ prompt: { a: sales } }) }), member());

    expect(rights.restricts('prompt')).toBe(true);
    expect(rights.restricts('tool')).toBe(false);
    expect(rights.restricts('resource')).toBe(false);
    expect(rights.dependsOnCaller).toBe(true);
  });

  test('rules about resources are rules about templates, and the other way round', () => {
    const kinds = ['resource', 'template'] as const;
    const rules = [rulesOf({ template: { 'a:{b}': sales } }), rulesOf({}, { resource: sales })];

    expect(
      rules.flatMap((one) =>
        kinds.map((kind) => new ToolRights(sourceOf({ rules: one }), member()).hasRules(kind)),
      ),
    ).toEqual(Array(4).fill(true));
  });

  test('ruled names are unread until a list was read, but URIs never are', () => {
    const rules = rulesOf({ tool: { a: sales }, resource: { 'a:b': sales } });
    const read = { ...nothing, open: { tool: new Set(['a']) } };
    const unread = (source: RightsSource) => {
      const rights = new ToolRights(source, member());
      return (['tool', 'prompt', 'resource', 'template'] as const).filter((kind) =>
        rights.isUnread(kind),
      );
    };

    expect(unread(sourceOf({ rules }))).toEqual(['tool', 'template']);
    expect(unread(sourceOf({ rules, offered: read }))).toEqual(['template']);
  });

  test('a tool that was accepted just now is on the list before it counts as known or accepted', () => {
    const rights = new ToolRights(
      sourceOf({
        hiddenTools: ['d'],
        rules: rulesOf({ tool: { a: sales } }),
        offered: {
          ...nothing,
          open: { tool: new Set(['a', 'c', 'd']) },
          withheld: { tool: new Set(['c']) },
        },
      }),
      member(),
    );
    const both = (name: string) => [rights.verdict('tool', name), rights.lists('tool', name)];

    expect(['a', 'b', 'c', 'd'].map(both)).toEqual([
      ['other_group', false],
      ['unknown', true],
      ['withheld', true],
      ['hidden', false],
    ]);
  });
});

describe('the state of a list', () => {
  const offered: Offered = { ...nothing, open: { tool: new Set(['a', 'b', 'c']) } };
  const stateOf = (
    rules: AccessRules | undefined,
    caller: ToolCaller,
    but: Partial<RightsSource> = {},
  ) => new ToolRights(sourceOf({ offered, rules, ...but }), caller).listState('tool');
  const restricted = rulesOf({ tool: { a: sales } });

  test('differs for those who lose or gain something, and for no one else', () => {
    const both = rulesOf({ tool: { a: sales, b: support } });

    expect(stateOf(both, member('sales'))).not.toBe(stateOf(restricted, member('sales')));
    expect(stateOf(both, member('support'))).toBe(stateOf(restricted, member('support')));
    expect(stateOf(restricted, member('sales'))).not.toBe(stateOf(restricted, member()));
  });

  test('differs with what is hidden, withheld, read-only, chosen or shown otherwise', () => {
    const caller = member();
    const states = [
      stateOf(undefined, caller),
      stateOf(undefined, caller, { hiddenTools: ['a'] }),
      stateOf(undefined, caller, { offered: { ...offered, withheld: { tool: new Set(['b']) } } }),
      stateOf(undefined, caller, { offered: { ...offered, revision: '2' } }),
      stateOf(undefined, credential(chosen({ tools: ['a'] }))),
      stateOf(undefined, credential(chosen({ tools: ['b'] }))),
      stateOf(undefined, credential({ type: 'read-only' })),
      stateOf(undefined, credential({ type: 'read-only' }), {
        offered: { ...offered, readOnly: new Set(['a']) },
      }),
    ];

    expect(new Set(states).size).toBe(states.length);
  });

  test('of resources differs when a URI that a template opens is closed', () => {
    const state = (resource: Record<string, Audience>) =>
      new ToolRights(
        sourceOf({
          rules: rulesOf({ template: { 'a:{b}': 'everyone' }, resource }, { resource: sales }),
        }),
        credential(),
      ).listState('resource');

    expect(state({ 'a:1': support })).not.toBe(state({}));
  });

  test('of resources differs when a template opens a URI that is chosen without it', () => {
    const rules = rulesOf({ template: { 'a:{b}': sales } });
    const state = (...groups: string[]) =>
      new ToolRights(sourceOf({ rules }), {
        groups: new Set(groups),
        selections: [chosen({ resources: ['a:1'] })],
      }).listState('resource');

    expect(state('sales')).not.toBe(state());
  });

  test('of resources differs with templates', () => {
    const state = (who: Audience) =>
      new ToolRights(
        sourceOf({ rules: rulesOf({ template: { 'a:{b}': who } }) }),
        member('sales'),
      ).listState('resource');

    expect(state(sales)).not.toBe(state(support));
  });
});

test('rules and what is offered survive being written and read', () => {
  const rules = rulesOf(
    { tool: { b: sales, a: 'everyone' }, template: { 'a:{b}': nobody } },
    { prompt: support },
  );
  const text = accessRulesText(rules) ?? '';
  const written = '{"withheld":{"tool":["a"]},"open":{},"readOnly":["b"],"revision":"7"}';

  expect(readAccessRules(text)).toEqual(rules);
  expect(accessRulesText(rulesOf({}, { tool: 'everyone' }))).toBeNull();
  expect(readOffered(written)).toEqual({
    withheld: { tool: new Set(['a']) },
    open: {},
    readOnly: new Set(['b']),
    revision: '7',
  });
  expect(readOffered('{}')).toEqual(nothing);
});

const groupIds = fc.subarray(['g1', 'g2', 'g3']);
const audience: fc.Arbitrary<Audience> = fc.oneof(
  fc.constant('everyone' as const),
  groupIds.map((ids) => new Set(ids)),
);
const toolNames = ['a', 'b', 'c', 'd'];
const some = fc.subarray(toolNames).map((names) => new Set(names));
const selection: fc.Arbitrary<ToolSelection> = fc.oneof(
  fc.constant({ type: 'all' as const }),
  fc.constant({ type: 'read-only' as const }),
  fc.subarray(toolNames).map((tools) => chosen({ tools })),
);
const caller: fc.Arbitrary<ToolCaller> = fc.record({
  groups: fc.option(
    groupIds.map((ids) => new Set(ids)),
    { nil: undefined },
  ),
  selections: fc.array(selection, { maxLength: 2 }),
});
const source: fc.Arbitrary<RightsSource> = fc
  .record({
    hiddenTools: fc.subarray(toolNames),
    withheld: some,
    open: fc.option(some, { nil: undefined }),
    readOnly: some,
    named: fc.dictionary(fc.constantFrom(...toolNames), audience),
    others: audience,
    isRuled: fc.boolean(),
  })
  .map(({ hiddenTools, withheld, open, readOnly, named, others, isRuled }) => ({
    hiddenTools,
    offered: { withheld: { tool: withheld }, open: open ? { tool: open } : {}, readOnly },
    rules: isRuled ? rulesOf({ tool: named }, { tool: others }) : undefined,
  }));

/** Whether a caller may use a tool, decided as simply as possible. */
function mayUse({ hiddenTools, offered, rules }: RightsSource, by: ToolCaller, name: string) {
  const isOffered =
    !hiddenTools.includes(name) &&
    !offered.withheld.tool?.has(name) &&
    (offered.open.tool?.has(name) ?? true);
  const isChosen = (one: ToolSelection) => one.type === 'chosen' && one.tools.includes(name);
  const isWithin = by.selections.every(
    (one) =>
      one.type === 'all' ||
      isChosen(one) ||
      (one.type === 'read-only' && offered.readOnly.has(name)),
  );
  const who = rules?.named.tool.get(name) ?? rules?.others.tool ?? 'everyone';
  const isAdmitted =
    who === 'everyone' ||
    (by.groups ? [...by.groups].some((id) => who.has(id)) : by.selections.some(isChosen));
  return isOffered && isWithin && isAdmitted;
}

const uris = ['file:///a/b', 'file:///a/c', 'memo://one', 'note://x'];
const templates = ['file:///{+path}', 'file:///a/{name}', 'memo://{id}'];
const inResources = fc.record({
  uris: fc.dictionary(fc.constantFrom(...uris), audience, { maxKeys: 2 }),
  templates: fc.dictionary(fc.constantFrom(...templates), audience, { maxKeys: 2 }),
  others: audience,
  withheld: fc.subarray(templates, { maxLength: 1 }),
});
const ofResources = fc.record({
  groups: fc.option(
    groupIds.map((ids) => new Set(ids)),
    { nil: undefined },
  ),
  selections: fc.array(
    fc.oneof(
      fc.constant({ type: 'all' as const }),
      fc.subarray([...uris, ...templates]).map((resources) => chosen({ resources })),
    ),
    { maxLength: 2 },
  ),
});

testProperties(
  'rights per resource',
  {
    'callers whose lists have the same state after a change may use the same': fc.property(
      inResources,
      inResources,
      fc.constantFrom('uris', 'templates', 'others', 'withheld'),
      ofResources,
      (before, other, changed, by) => {
        const [first, second] = [before, { ...before, [changed]: other[changed] }].map((now) => {
          const { uris: resource, templates: template, others, withheld } = now;
          const rules = rulesOf({ resource, template }, { resource: others });
          const offered = { ...nothing, withheld: { template: new Set(withheld) } };
          return new ToolRights(sourceOf({ offered, rules }), by);
        });
        if (!first || !second) throw new Error('there are two');
        if (first.listState('resource') !== second.listState('resource')) return;
        const listed = (rights: ToolRights) =>
          [
            ...uris.filter((uri) => rights.lists('resource', uri)),
            ...templates.filter((template) => allows(rights.verdict('template', template))),
          ].join();
        ensure(listed(first) === listed(second), `${listed(first)} and ${listed(second)}`);
      },
    ),
  },
  3000,
);

testProperties(
  'rights per tool',
  {
    'what a caller may use is what a short model says, and whatever restricts nothing allows it':
      fc.property(source, caller, fc.constantFrom(...toolNames, 'e'), (from, by, name) => {
        const rights = new ToolRights(from, by);
        const isAllowed = allows(rights.verdict('tool', name));
        ensure(isAllowed === mayUse(from, by, name), `${name} is ${rights.verdict('tool', name)}`);
        ensure(rights.restricts('tool') || isAllowed, 'restricts nothing, and refuses');
        ensure(!isAllowed || rights.lists('tool', name), 'allowed, and not listed');
      }),
    'callers whose lists have the same state may use the same': fc.property(
      source,
      source,
      caller,
      (one, other, by) => {
        const [first, second] = [new ToolRights(one, by), new ToolRights(other, by)];
        if (first.listState('tool') !== second.listState('tool')) return;
        const listed = (rights: ToolRights) =>
          [...toolNames, 'e'].filter((name) => allows(rights.verdict('tool', name))).join('');
        ensure(listed(first) === listed(second), `${listed(first)} and ${listed(second)}`);
      },
    ),
  },
  3000,
);
