import { describe, expect, test } from 'vitest';

import { groupAddMember, groupCreate, groupDelete } from '#server/admin/groups';
import { keyCreate } from '#server/admin/keys';
import { personOf } from '#server/admin/operation';
import {
  toolChangeRules,
  toolOpen,
  toolPreview,
  toolRemoveRule,
  toolRestrict,
  toolSetDefault,
} from '#server/admin/tool-rules';
import { toolList } from '#server/admin/tools';
import { findServer } from '#server/db/servers';
import { noteTools } from '#support/listed-tools';
import type { Db } from '#server/db/transaction';
import { toolDefinition } from '#server/tools/definition';
import { administered, type Administered } from '#support/administered';
import { administrationWithServer } from '#support/administration';
import { newestEvents } from '#support/newest-events';

const web = { organization: 'acme', server: 'web' };

async function listTools(db: Db, ...names: string[]): Promise<void> {
  const { target } = (await findServer(db, 'acme', 'web')) ?? {};
  const tools = names.flatMap((name) => toolDefinition({ name }) ?? []);
  await noteTools(db, target?.id ?? '', tools, 1);
}

/** The group Finance of `acme`, of which Dana is a member; Erin is a member of `acme` only. */
async function withGroup(at: Administered) {
  await listTools(at.stores.db, 'search', 'transfer');
  const group = await at.perform(groupCreate, { organization: 'acme', name: 'Finance' });
  const [dana, erin] = [await at.person('member'), await at.person('member')];
  const named = { organization: 'acme', groupId: group.id };
  await at.perform(groupAddMember, { ...named, userId: personOf(dana) });
  return { groupId: group.id, dana, erin };
}

describe('tool rules', () => {
  test('restrict a tool to a group, open it and leave it to the default, with an entry in the audit log each', async () => {
    await using at = await administered();
    const { groupId } = await withGroup(at);
    const admin = await at.person('admin');
    const tools = [{ name: 'transfer' }];

    const restricted = await at.perform(
      toolRestrict,
      { ...web, rules: [{ name: 'transfer', groupIds: [groupId] }] },
      admin,
    );
    const open = await at.perform(toolOpen, { ...web, tools }, admin);
    const later = await at.perform(
      toolSetDefault,
      { ...web, access: 'groups', groupIds: [groupId] },
      admin,
    );
    const removed = await at.perform(toolRemoveRule, { ...web, tools }, admin);

    const transfer = { kind: 'tool', name: 'transfer', isKnown: true };
    const ofFinance = { access: 'groups', groups: [{ id: groupId, name: 'Finance' }] };
    const ofEveryone = { access: 'everyone', groups: [] };
    expect(restricted.items).toEqual([{ ...transfer, audience: ofFinance }]);
    expect(open.items).toEqual([{ ...transfer, audience: ofEveryone }]);
    expect(later).toEqual({ kind: 'tool', audience: ofFinance });
    expect(removed.items).toEqual([{ ...transfer, audience: ofFinance }]);
    const events = await newestEvents(at.stores.db, 4);
    expect(events.map(({ action, target }) => [action, target])).toEqual([
      ['tool.remove-rule', 'tool:acme/web/transfer'],
      ['tool.set-default', `group:${groupId} kind:tool server:acme/web`],
      ['tool.open', 'tool:acme/web/transfer'],
      ['tool.restrict', `group:${groupId} tool:acme/web/transfer`],
    ]);
  });

  test('change several at once, defaults too, if they are still those of the list', async () => {
    await using at = await administered();
    const { groupId, dana } = await withGroup(at);
    const rules = [
      { name: 'transfer', access: 'groups', groupIds: [groupId] },
      { kind: 'prompt', access: 'groups', groupIds: [groupId] },
    ];
    const { rulesSeen } = await at.perform(toolList, web);
    const change = (seen: unknown) =>
      at.perform(toolChangeRules, { ...web, rules, rulesSeen: seen });

    const others = [{ name: 'search', groupIds: [groupId] }];
    await at.perform(toolRestrict, { ...web, rules: others });
    const stale = change(rulesSeen);
    await expect(stale).rejects.toMatchObject({ code: 'conflict' });
    const fresh = await at.perform(toolList, web);
    const changed = await change(fresh.rulesSeen);

    const { items, defaults, rulesSeen: now } = await at.perform(toolList, web);
    expect(items.find(({ name }) => name === 'transfer')?.audience?.access).toBe('groups');
    expect(defaults?.prompt.access).toBe('groups');
    expect(changed).toEqual({ rulesSeen: now });
    expect((await at.perform(toolList, web, dana)).rulesSeen).toBeNull();
    const events = await newestEvents(at.stores.db, 5);
    expect(events.map(({ action, outcome }) => `${action} ${outcome}`)).toEqual([
      'tool.change-rules done',
      'tool.set-default done',
      'tool.restrict done',
      'tool.change-rules refused',
      'tool.restrict done',
    ]);
  });

  test('say whether the server has listed what they name', async () => {
    await using at = await administered();
    const { groupId: id } = await withGroup(at);
    const groupIds = [id];

    const { items } = await at.perform(toolRestrict, {
      ...web,
      rules: [
        { name: 'transfer', groupIds },
        { name: 'transfr', groupIds },
        { kind: 'resource', name: 'file:///a', groupIds },
        { kind: 'template', name: 'file:///{path}', groupIds },
      ],
    });

    expect(items.map(({ isKnown }) => isKnown)).toEqual([true, false, null, false]);
  });

  test('are recorded one by one if one request changes several', async () => {
    await using at = await administered();
    const { groupId } = await withGroup(at);
    const names = Array.from({ length: 40 }, (_, n) => `tool_${n}`);
    const rules = names.map((name) => ({ name, groupIds: [groupId] }));

    await at.perform(toolRestrict, { ...web, rules });

    const events = await newestEvents(at.stores.db, 41);
    const targets = events.map(({ target }) => target);
    for (const name of names) expect(targets).toContain(`group:${groupId} tool:acme/web/${name}`);
  });

  test.each([
    ['no rule', []],
    ['no group', [{ name: 'transfer', groupIds: [] }]],
    ['an empty name', [{ name: '', groupIds: ['group_x'] }]],
    ['a name that is too long', [{ name: 'x'.repeat(201), groupIds: ['group_x'] }]],
    ['a list as a name', [{ name: ['transfer'], groupIds: ['group_x'] }]],
    ['an unknown kind', [{ kind: 'task', name: 'transfer', groupIds: ['group_x'] }]],
    ['an unknown group', [{ name: 'transfer', groupIds: ['group_x'] }]],
    [
      'a URI that is too long',
      [{ kind: 'resource', name: `a:${'x'.repeat(2000)}`, groupIds: ['group_x'] }],
    ],
  ])('are refused with %s', async (_, rules) => {
    await using at = await administered();

    await expect(at.perform(toolRestrict, { ...web, rules })).rejects.toMatchObject({
      code: 'invalid',
    });
  });

  test('cannot be changed by a member, and not for a server of another organization', async () => {
    await using at = await administered();
    const { groupId, dana } = await withGroup(at);
    const rules = [{ name: 'transfer', groupIds: [groupId] }];

    await expect(at.perform(toolRestrict, { ...web, rules }, dana)).rejects.toMatchObject({
      code: 'forbidden',
    });
    await expect(
      at.perform(toolRestrict, { organization: 'other', server: 'web', rules }),
    ).rejects.toMatchObject({
      code: 'invalid',
      message: 'groupIds names a group that does not exist',
    });
  });

  test('keep their group from being deleted', async () => {
    await using at = await administered();
    const { groupId } = await withGroup(at);
    await at.perform(toolSetDefault, { ...web, access: 'groups', groupIds: [groupId] });

    await expect(at.perform(groupDelete, { organization: 'acme', groupId })).rejects.toMatchObject({
      code: 'conflict',
    });
  });
});

describe('tool.preview', () => {
  test('says who would gain and lose what, of rules as JSON or as objects', async () => {
    await using at = await administered();
    const { groupId, erin } = await withGroup(at);
    await at.perform(keyCreate, { ...web, name: 'nightly' });
    const planned = [{ name: 'transfer', access: 'groups', groupIds: [groupId] }];
    const inQuery = JSON.stringify([{ name: 'transfer', access: 'groups', group_ids: [groupId] }]);

    const [found, ofQuery] = [
      await at.perform(toolPreview, { ...web, rules: planned }),
      await at.perform(toolPreview, { ...web, rules: inQuery }),
    ];

    const item = { kind: 'tool', name: 'transfer' };
    expect(found.loses.people).toEqual({
      count: 1,
      callers: [
        {
          id: personOf(erin),
          name: expect.stringContaining('@example.com'),
          email: null,
          count: 1,
          items: [item],
        },
      ],
    });
    expect(found.loses.keys.callers.map(({ name }) => name)).toEqual(['nightly']);
    expect(found.gains.people.count).toBe(0);
    expect(ofQuery).toEqual(found);
  });

  test.each([
    ['JSON that is none', '['],
    ['an object', '{"0":{"name":"a","access":"everyone"}}'],
    ['names of ours in a query', '[{"name":"a","access":"everyone","groupIds":[]}]'],
    ['groups for everyone', [{ name: 'a', access: 'everyone', groupIds: ['group_x'] }]],
    ['groups without any', [{ name: 'a', access: 'groups' }]],
    ['a default for templates', [{ kind: 'template', access: 'everyone' }]],
    ['a removed rule without a name', [{ access: 'default' }]],
  ])('refuses %s', async (_, rules) => {
    await using at = await administered();

    await expect(at.perform(toolPreview, { ...web, rules })).rejects.toMatchObject({
      code: 'invalid',
    });
  });
});

describe('tool commands', () => {
  async function terminal() {
    const admin = await administrationWithServer();
    await listTools(admin.stores.db, 'search', 'transfer');
    await admin.run('group', 'create', 'acme', 'Finance');
    await admin.run(
      'user',
      'create',
      'dana@acme.example',
      '--organization',
      'acme',
      '--role',
      'member',
    );
    return admin;
  }

  test('restrict, open, default and remove-rule print who can use what', async () => {
    await using admin = await terminal();

    expect(
      await admin.json('tool', 'restrict', 'acme/web', 'transfer', 'search', '--group', 'Finance'),
    ).toEqual([
      { kind: 'tool', name: 'transfer', access: 'groups', groups: ['Finance'] },
      { kind: 'tool', name: 'search', access: 'groups', groups: ['Finance'] },
    ]);
    expect(await admin.json('tool', 'open', 'acme/web', 'search')).toEqual([
      { kind: 'tool', name: 'search', access: 'everyone', groups: [] },
    ]);
    expect(
      await admin.json('tool', 'default', 'acme/web', '--kind', 'prompt', '--group', 'Finance'),
    ).toEqual({ name: 'acme/web', kind: 'prompt', access: 'groups', groups: ['Finance'] });
    expect(await admin.json('tool', 'default', 'acme/web', '--everyone')).toMatchObject({
      kind: 'tool',
      access: 'everyone',
    });
    expect(await admin.json('tool', 'remove-rule', 'acme/web', 'transfer')).toMatchObject([
      { name: 'transfer', access: 'everyone' },
    ]);
  });

  test('with --dry-run they say who would be affected, and change nothing', async () => {
    await using admin = await terminal();
    await admin.run('key', 'create', 'acme/web', '--name', 'nightly');
    const planned = ['tool', 'restrict', 'acme/web', 'transfer', '--group', 'Finance'];

    expect(await admin.json(...planned, '--dry-run')).toEqual({
      name: 'acme/web',
      gains: [],
      loses: ['person dana@acme.example: transfer', 'key nightly: transfer'],
    });
    expect(await admin.json('tool', 'default', 'acme/web', '--everyone', '--dry-run')).toEqual({
      name: 'acme/web',
      gains: [],
      loses: [],
    });
    const { target } = (await findServer(admin.stores.db, 'acme', 'web')) ?? {};
    expect(target?.rules).toBeUndefined();
    expect(await admin.run(...planned, '--dry-run')).toEqual([
      'name   acme/web',
      'gains  nobody',
      'loses  person dana@acme.example: transfer; key nightly: transfer',
    ]);
  });

  test('removing a rule says nothing about a name that is not listed', async () => {
    await using admin = await terminal();

    const lines = await admin.run('tool', 'remove-rule', 'acme/web', 'transfr');

    expect(lines.join('\n')).not.toContain('hint:');
  });

  test('a person is told about a name that the server has not listed', async () => {
    await using admin = await terminal();

    const lines = await admin.run('tool', 'restrict', 'acme/web', 'transfr', '--group', 'Finance');

    expect(lines.at(-1)).toBe(
      'hint: the server has not listed transfr so far; a rule applies once it does',
    );
  });

  test.each([
    ['tool restrict acme/web transfer', '--group GROUP is missing'],
    ['tool restrict acme/web --group Finance', 'NAME is missing'],
    ['tool open acme/web', 'NAME is missing'],
    ['tool open acme/web a --kind task', "--kind 'task' is none of tool, prompt"],
    ['tool default acme/web', 'give --group, or --everyone, but not both'],
    ['tool default acme/web --everyone --group Finance', 'give --group, or --everyone'],
    ['tool default acme/web --everyone --kind template', "--kind 'template' is none of"],
  ])('%s is wrong usage', async (line, words) => {
    await using admin = await terminal();

    await expect(admin.run(...line.split(' '))).rejects.toMatchObject({
      name: 'UsageError',
      message: expect.stringContaining(words),
    });
  });

  test('an unknown group is named', async () => {
    await using admin = await terminal();

    await expect(
      admin.run('tool', 'restrict', 'acme/web', 'transfer', '--group', 'Nobody'),
    ).rejects.toMatchObject({
      name: 'CommandError',
      message: "there is no group 'Nobody' in acme",
    });
  });
});
