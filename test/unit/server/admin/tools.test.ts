import { describe, expect, test } from 'vitest';

import { groupAddMember, groupCreate } from '#server/admin/groups';
import { keyCreate } from '#server/admin/keys';
import { personOf } from '#server/admin/operation';
import { serverCreate, serverRead, serverUpdate } from '#server/admin/servers';
import { toolRestrict } from '#server/admin/tool-rules';
import { toolAccept, toolCorrect, toolList, toolReject, type ToolView } from '#server/admin/tools';
import { noteDefinitions } from '#server/db/note-definitions';
import { findUser } from '#server/db/people';
import { findServer } from '#server/db/servers';
import type { Db } from '#server/db/transaction';
import { definitionOf, instructionsDefinition, type ListedKind } from '#server/tools/definition';
import { administered, type Administered } from '#support/administered';
import { administrationWithServer } from '#support/administration';
import { newestEvents } from '#support/newest-events';

const web = { organization: 'acme', server: 'web' };

/** Stores a whole list of the server `acme/web`. */
async function list(db: Db, kind: ListedKind, ...elements: object[]): Promise<void> {
  const { target } = (await findServer(db, 'acme', 'web')) ?? {};
  const definitions = elements.flatMap((element) => definitionOf(kind, element) ?? []);
  await noteDefinitions(db, target?.id ?? '', { kind, definitions, isLast: true }, 1);
}

const search = {
  name: 'search',
  title: 'Search',
  description: 'Finds.',
  annotations: { readOnlyHint: true, openWorldHint: false },
};
const transfer = { name: 'transfer', description: 'Pays.' };

const names = (items: readonly ToolView[]) => items.map(({ kind, name }) => `${kind} ${name}`);

async function listed(at: Administered, as?: string) {
  return at.perform(toolList, { ...web, as });
}

async function one(at: Administered, name: string): Promise<ToolView> {
  const found = (await listed(at)).items.find((item) => item.name === name);
  if (!found) throw new Error(`no ${name}`);
  return found;
}

describe('tool.list', () => {
  test('lists all kinds, hidden tools and names of rules, with what the server says and who can use it', async () => {
    await using at = await administered();
    const { db } = at.stores;
    await list(db, 'tool', search, transfer);
    await list(db, 'prompt', { name: 'greet' });
    await list(db, 'template', { uriTemplate: 'file:///{path}' });
    const { id } = await at.perform(groupCreate, { organization: 'acme', name: 'Finance' });
    await at.perform(serverUpdate, { ...web, hiddenTools: ['old'] });
    const rules = [
      { name: 'transfer', groupIds: [id] },
      { kind: 'resource', name: 'file:///secret', groupIds: [id] },
    ];
    await at.perform(toolRestrict, { ...web, rules });

    const { items, defaults, excluded, newTools } = await listed(at);

    expect(names(items)).toEqual([
      'tool old',
      'tool search',
      'tool transfer',
      'prompt greet',
      'resource file:///secret',
      'template file:///{path}',
    ]);
    const [old, first, second] = items;
    expect(old).toMatchObject({ status: 'unlisted', isHidden: true, accepted: null, hints: null });
    expect(first).toMatchObject({
      title: 'Search',
      status: 'offered',
      acceptedBy: null,
      hints: { readOnly: true, destructive: null, idempotent: null, openWorld: false },
      shownHints: { readOnly: true, destructive: null, idempotent: null, openWorld: false },
      audience: { access: 'everyone', groups: [] },
      allowed: null,
    });
    expect(second?.audience).toEqual({ access: 'groups', groups: [{ id, name: 'Finance' }] });
    expect(defaults?.tool).toEqual({ access: 'everyone', groups: [] });
    expect([excluded, newTools]).toEqual([null, 'offer']);
  });

  test('says for a person, a key and a client what each can use, and why', async () => {
    await using at = await administered();
    await list(at.stores.db, 'tool', search, transfer);
    const { id } = await at.perform(groupCreate, { organization: 'acme', name: 'Finance' });
    const dana = personOf(await at.person('member'));
    const member = { organization: 'acme', groupId: id, userId: dana };
    const email = (await findUser(at.stores.db, dana))?.email ?? '';
    await at.perform(toolRestrict, { ...web, rules: [{ name: 'transfer', groupIds: [id] }] });
    const key = await at.perform(keyCreate, { ...web, name: 'CI' });
    const reasons = async (as: string) =>
      (await listed(at, as)).items.map(({ name, allowed, reason }) => [name, allowed, reason]);

    const before = await reasons(email);
    await at.perform(groupAddMember, member);

    expect(before).toEqual([
      ['search', true, 'everyone'],
      ['transfer', false, 'other_group'],
    ]);
    expect(await reasons(email)).toContainEqual(['transfer', true, 'group']);
    expect(await reasons(key.id)).toContainEqual(['transfer', false, 'no_person']);
  });

  test.each([
    ['nobody@example.com', 'person'],
    ['key_none', 'key'],
    ['client_none', 'client'],
    ['https://app.example/@client', 'client'],
    ['grant_none', 'grant'],
  ])('finds nothing for %s', async (as, what) => {
    await using at = await administered();

    await expect(listed(at, as)).rejects.toMatchObject({
      code: 'not_found',
      message: `${what} '${as}' not found`,
    });
  });

  test('shows neither groups nor the rights of others to a member', async () => {
    await using at = await administered();
    await list(at.stores.db, 'tool', search);
    const member = await at.person('member');

    const seen = await at.perform(toolList, web, member);

    expect([seen.defaults, seen.items[0]?.audience]).toEqual([null, null]);
    await expect(
      at.perform(toolList, { ...web, as: 'p1@example.com' }, member),
    ).rejects.toMatchObject({ code: 'forbidden' });
  });
});

describe('review', () => {
  test('a new tool is accepted, and a changed one rejected, with the actor and an entry for each', async () => {
    await using at = await administered();
    const { db } = at.stores;
    const admin = await at.person('admin');
    await at.perform(serverUpdate, { ...web, newTools: 'review' });
    await list(db, 'tool', search, transfer);
    await list(db, 'prompt', { name: 'greet' });
    const fresh = (await listed(at)).items;
    const read = fresh.map(({ kind, name, changed }) => {
      return { kind, name, digest: changed?.digest };
    });

    const accepted = await at.perform(toolAccept, { ...web, tools: read }, admin);
    const by = `user:${personOf(admin)}`;
    const afterwards = await one(at, 'transfer');
    await list(db, 'tool', search, { ...transfer, description: 'Pays me.' });
    const changed = await one(at, 'transfer');
    const rejecting = [{ name: 'transfer', digest: changed.changed?.digest }];
    const rejected = await at.perform(toolReject, { ...web, tools: rejecting }, admin);

    expect(fresh.map(({ status, isWithheld }) => [status, isWithheld])).toEqual([
      ['new', true],
      ['new', true],
      ['new', true],
    ]);
    expect(accepted.accepted.map(({ name }) => name)).toEqual(['search', 'transfer', 'greet']);
    expect(afterwards).toMatchObject({ status: 'accepted', acceptedBy: by, isWithheld: false });
    expect([changed.status, changed.isWithheld]).toEqual(['changed', false]);
    expect(rejected).toEqual({ rejected: [{ kind: 'tool', name: 'transfer' }], skipped: [] });
    expect(await one(at, 'transfer')).toMatchObject({
      status: 'rejected',
      isWithheld: true,
      changed: { rejectedBy: by },
    });
    const events = await newestEvents(db, 9);
    expect(events.map(({ action, target }) => `${action} ${target}`)).toEqual(
      expect.arrayContaining([
        'tool.accept tool:acme/web/search',
        'tool.accept tool:acme/web/transfer',
        'tool.accept tool:acme/web/prompt greet',
        'tool.reject tool:acme/web/transfer',
      ]),
    );
  });

  test('what has changed since it was read is skipped, and nothing else is a conflict', async () => {
    await using at = await administered();
    const { db } = at.stores;
    await list(db, 'tool', search, transfer);
    const [old, other] = [await one(at, 'search'), await one(at, 'transfer')];
    await list(db, 'tool', { ...search, title: 'Find' }, transfer);
    const stale = { name: 'search', digest: old.acceptedDigest };

    await expect(at.perform(toolAccept, { ...web, tools: [stale] })).rejects.toMatchObject({
      code: 'conflict',
    });
    expect(
      await at.perform(toolAccept, {
        ...web,
        tools: [stale, { name: 'transfer', digest: other.acceptedDigest }],
      }),
    ).toEqual({
      accepted: [{ kind: 'tool', name: 'transfer' }],
      skipped: [{ kind: 'tool', name: 'search' }],
    });
    expect(await one(at, 'transfer')).toMatchObject({ status: 'accepted', acceptedBy: 'operator' });
  });

  test('a server is created with a review of its tools, which can end', async () => {
    await using at = await administered();
    const upstream = { kind: 'demo' };
    const named = { organization: 'acme', name: 'careful' };
    const made = await at.perform(serverCreate, {
      ...named,
      upstream,
      newTools: 'review',
      changedTools: 'withhold',
    });
    const place = { organization: 'acme', server: 'careful' };
    await at.perform(serverUpdate, { ...place, newTools: 'offer' });

    expect([made.newTools, made.changedTools]).toEqual(['review', 'withhold']);
    expect(await at.perform(serverRead, place)).toMatchObject({
      newTools: 'offer',
      changedTools: 'withhold',
    });
  });
});

describe('tool.correct', () => {
  test('changes what assistants see, one field after the other, until the server speaks for itself again', async () => {
    await using at = await administered();
    const admin = await at.person('admin');
    await list(at.stores.db, 'tool', search);

    const titled = await at.perform(toolCorrect, { ...web, name: 'search', title: 'Find' }, admin);
    const hinted = await at.perform(toolCorrect, { ...web, name: 'search', readOnly: false });
    await at.perform(toolCorrect, { ...web, name: 'search', title: null, readOnly: null });

    expect(titled.correction).toMatchObject({ title: 'Find', by: `user:${personOf(admin)}` });
    expect(hinted).toMatchObject({
      title: 'Search',
      correction: { title: 'Find', description: null },
      hints: { readOnly: true },
      shownHints: { readOnly: false, openWorld: false },
    });
    expect((await one(at, 'search')).correction).toBeNull();
    expect((await newestEvents(at.stores.db, 1))[0]).toMatchObject({
      action: 'tool.correct',
      target: 'tool:acme/web/search',
    });
  });

  test.each([
    ['nothing', {}, 'invalid'],
    ['an empty title', { title: '' }, 'invalid'],
    ['a title of two lines', { title: 'a\nb' }, 'invalid'],
    ['a description that is too long', { description: 'x'.repeat(10_001) }, 'invalid'],
    ['a hint that is a text', { readOnly: 'yes' }, 'invalid'],
    ['a tool that was never listed', { name: 'other', title: 'Other' }, 'not_found'],
  ])('refuses %s', async (_, change, code) => {
    await using at = await administered();
    await list(at.stores.db, 'tool', search);

    await expect(
      at.perform(toolCorrect, { ...web, name: 'search', ...change }),
    ).rejects.toMatchObject({ code });
  });
});

describe('tool commands', () => {
  async function terminal() {
    const admin = await administrationWithServer();
    await list(admin.stores.db, 'tool', search, transfer);
    const { target } = (await findServer(admin.stores.db, 'acme', 'web')) ?? {};
    const definitions = [instructionsDefinition('Be kind.')];
    const instructions = { kind: 'instructions', definitions, isLast: true } as const;
    await noteDefinitions(admin.stores.db, target?.id ?? '', instructions, 1);
    return admin;
  }

  test('tool list prints the state of the review, and with --as what a key can use', async () => {
    await using admin = await terminal();
    const key = await admin.run('key', 'create', 'acme/web', '--name', 'CI', '--tools', 'search');
    const id = key[0]?.split(/ +/)[1] ?? '';

    expect(await admin.json('tool', 'list', 'acme/web')).toMatchObject([
      { kind: 'tool', name: 'search', status: 'offered', read_only: true, access: 'everyone' },
      { kind: 'tool', name: 'transfer', status: 'offered', read_only: null, groups: [] },
      { kind: 'instructions', status: 'offered', access: null },
    ]);
    expect(await admin.json('tool', 'list', 'acme/web', '--as', id)).toEqual([
      { kind: 'tool', name: 'search', allowed: true, reason: 'everyone' },
      { kind: 'tool', name: 'transfer', allowed: false, reason: 'not_chosen' },
    ]);
    expect((await admin.run('tool', 'list', 'acme/web', '--as', id))[1]).toMatch(
      /^tool +search +yes +everyone$/,
    );
  });

  test('a person is told why a caller cannot use the server at all', async () => {
    await using admin = await terminal();
    const key = await admin.run('key', 'create', 'acme/web', '--name', 'CI');
    const id = key[0]?.split(/ +/)[1] ?? '';
    await admin.run('key', 'revoke', id);

    const lines = await admin.run('tool', 'list', 'acme/web', '--as', id);

    expect(lines.at(-1)).toBe(`hint: ${id} cannot use this server: revoked`);
  });

  test('tool accept and reject take names or all', async () => {
    await using admin = await terminal();
    const accept = ['tool', 'accept', 'acme/web'];

    expect(await admin.json(...accept, 'search')).toEqual({
      name: 'acme/web',
      accepted: ['search'],
      skipped: [],
    });
    expect(await admin.json(...accept, '--all')).toMatchObject({
      accepted: ['transfer', 'instructions instructions'],
    });
    await list(admin.stores.db, 'tool', { ...search, title: 'Find' }, transfer);
    expect(await admin.json('tool', 'reject', 'acme/web', '--all')).toMatchObject({
      rejected: ['search'],
    });
    await expect(admin.run(...accept, '--all')).rejects.toMatchObject({
      name: 'CommandError',
      message: 'there is nothing to accept at acme/web',
      hint: 'latchkey-server tool list acme/web',
    });
    await expect(admin.run(...accept, 'other')).rejects.toThrow(
      'no tool of acme/web is called other',
    );
  });

  test('tool correct sets hints and texts, and as-server or an empty text takes them back', async () => {
    await using admin = await terminal();
    const correct = ['tool', 'correct', 'acme/web', 'transfer'];

    expect(
      await admin.json(...correct, '--destructive', 'yes', '--description', 'Pays a bill.'),
    ).toEqual({
      name: 'transfer',
      title: null,
      description: 'Pays a bill.',
      read_only: null,
      destructive: true,
      idempotent: null,
      open_world: null,
    });
    expect(
      await admin.json(...correct, '--destructive', 'as-server', '--description', ''),
    ).toMatchObject({ description: null, destructive: null });
  });

  test.each([
    ['tool accept acme/web', 'give names, or --all, but not both'],
    ['tool accept acme/web search --all', 'give names, or --all, but not both'],
    ['tool accept acme/web search --kind resource', "--kind 'resource' is none of tool, prompt"],
    ['tool correct acme/web', 'NAME is missing'],
    ['tool correct acme/web search --read-only maybe', "--read-only 'maybe' is none of yes"],
    ['tool correct acme/web search', 'correct at least one field'],
    ['tool list', 'ORG/SERVER is missing'],
  ])('%s is wrong usage', async (line, words) => {
    await using admin = await terminal();

    await expect(admin.run(...line.split(' '))).rejects.toMatchObject({
      name: 'UsageError',
      message: expect.stringContaining(words),
    });
  });

  test('server create --review-tools keeps everything closed until it is accepted', async () => {
    await using admin = await terminal();
    await admin.run('server', 'create', 'acme/new', '--demo', '--review-tools');

    const { target } = (await findServer(admin.stores.db, 'acme', 'new')) ?? {};
    expect([target?.newTools, target?.changedTools]).toEqual(['review', 'withhold']);
    await admin.run('server', 'update', 'acme/new', '--new-tools', 'offer');
    expect((await findServer(admin.stores.db, 'acme', 'new'))?.target.newTools).toBe('offer');
  });
});
