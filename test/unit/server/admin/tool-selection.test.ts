import { describe, expect, test } from 'vitest';

import { clientCreate, clientRead, clientUpdate } from '#server/admin/clients';
import { grantList, grantUpdate } from '#server/admin/grants';
import { keyCreate, keyRead, keyRotate, keyUpdate } from '#server/admin/keys';
import { personOf } from '#server/admin/operation';
import { readSelection } from '#server/admin/tool-selection';
import { currentAdmissions } from '#server/db/admissions';
import { revokeGrant } from '#server/db/grants';
import { findServer } from '#server/db/servers';
import { hashSecret } from '#server/secrets/secrets';
import { administered } from '#support/administered';
import { administrationWithServer } from '#support/administration';
import { connectProxy } from '#support/made-records';
import { newestEvents } from '#support/newest-events';

const web = { organization: 'acme', server: 'web' };
const chosen = { type: 'chosen', tools: ['search', 'get'], prompts: [], resources: [] } as const;
const readOnly = { type: 'read-only' } as const;

describe('the tools of a key', () => {
  test('are chosen at its creation, changed later, and in force on the next call', async () => {
    await using at = await administered();
    const admin = await at.person('admin');
    const { key, ...made } = await at.perform(
      keyCreate,
      { ...web, name: 'CI', tools: readOnly },
      admin,
    );
    const selectionsNow = async () => {
      const now = at.clock.now();
      const admitted = await currentAdmissions(at.stores.db).byKey({
        ...web,
        keyHash: hashSecret(key),
        now,
      });
      return admitted && 'toolCaller' in admitted ? admitted.toolCaller.selections : undefined;
    };
    const before = await selectionsNow();
    const named = { organization: 'acme', keyId: made.id };

    const changed = await at.perform(keyUpdate, { ...named, tools: chosen }, admin);

    expect([made.tools, before]).toEqual([readOnly, [readOnly]]);
    expect(changed.tools).toEqual({ ...chosen, tools: ['get', 'search'] });
    expect(await selectionsNow()).toEqual([changed.tools]);
    expect((await newestEvents(at.stores.db, 1))[0]).toMatchObject({
      action: 'key.update',
      target: `key:${made.id}`,
      outcome: 'done',
    });
  });

  test('stay with the key that replaces it', async () => {
    await using at = await administered();
    const { id } = await at.perform(keyCreate, { ...web, name: 'CI', tools: readOnly });

    const rotated = await at.perform(keyRotate, { organization: 'acme', keyId: id });

    expect(rotated.tools).toEqual(readOnly);
  });

  test.each([
    ['no name', { ...chosen, tools: [] }],
    ['an empty name', { ...chosen, tools: [''] }],
    ['a name that is too long', { ...chosen, tools: ['x'.repeat(201)] }],
    ['half of a character', { ...chosen, prompts: ['\uD800'] }],
    ['a URI of more than 2,000 bytes', { ...chosen, resources: [`file:///${'é'.repeat(997)}`] }],
    ['too many names', { ...chosen, tools: Array.from({ length: 1001 }, (_, n) => `tool_${n}`) }],
    ['another type', { type: 'none' }],
    ['names beside all', { type: 'all', tools: ['search'] }],
    ['a text', 'read-only'],
  ])('are refused with %s', async (_, tools) => {
    await using at = await administered();

    await expect(at.perform(keyCreate, { ...web, name: 'CI', tools })).rejects.toMatchObject({
      code: 'invalid',
    });
  });

  test('are not changed for a key of an agent, a revoked key and one of another organization', async () => {
    await using at = await administered();
    const { id } = await at.perform(keyCreate, { ...web, name: 'CI' });
    await at.stores.db.updateTable('api_key').set({ revoked_at: 1 }).execute();
    const named = { organization: 'acme', keyId: id };

    await expect(at.perform(keyUpdate, { ...named, tools: readOnly })).rejects.toMatchObject({
      code: 'conflict',
    });
    await expect(
      at.perform(keyUpdate, { ...named, keyId: 'key_none', tools: readOnly }),
    ).rejects.toMatchObject({ code: 'not_found' });
    expect((await at.perform(keyRead, named)).tools).toEqual({ type: 'all' });
  });
});

test('the tools of a client are chosen at its creation, and changed without another field', async () => {
  await using at = await administered();
  const scopes = ['mcp:tools:read'];
  const made = await at.perform(clientCreate, { ...web, name: 'CI', scopes, tools: chosen });
  const named = { organization: 'acme', clientId: made.clientId };

  await at.perform(clientUpdate, { ...named, name: 'Nightly' });
  const renamed = await at.perform(clientRead, named);
  const changed = await at.perform(clientUpdate, { ...named, tools: readOnly });

  expect(renamed.tools).toEqual({ ...chosen, tools: ['get', 'search'] });
  expect([changed.name, changed.tools]).toEqual(['Nightly', readOnly]);
});

test('the tools of a grant are changed by an administrator, and not by a member', async () => {
  await using at = await administered();
  const [admin, member] = [await at.person('admin'), await at.person('member')];
  const { db } = at.stores;
  const { id: serverId = '' } = (await findServer(db, 'acme', 'web')) ?? {};
  const userId = personOf(member);
  await connectProxy(db, { people: [userId], serverId, now: at.clock.now() });
  const grantId = `grant_of_${userId}`;
  const named = { organization: 'acme', grantId, tools: readOnly };

  const changed = await at.perform(grantUpdate, named, admin);
  const refused = at.perform(grantUpdate, { ...named, tools: { type: 'all' } }, member);

  await expect(refused).rejects.toMatchObject({ code: 'forbidden' });
  expect(changed).toMatchObject({ id: grantId, tools: readOnly });
  expect((await at.perform(grantList, { organization: 'acme' })).items).toMatchObject([
    { id: grantId, tools: readOnly },
  ]);
  await revokeGrant(db, grantId, at.clock.now());
  await expect(at.perform(grantUpdate, named, admin)).rejects.toMatchObject({ code: 'not_found' });
});

describe('--tools', () => {
  test('limits keys and clients at the terminal', async () => {
    await using admin = await administrationWithServer();
    const document = async (line: string): Promise<Record<string, string>> =>
      JSON.parse((await admin.run(...line.split(' '), '--json')).join('\n'));
    const key = await document('key create acme/web --name CI --tools search,get');
    const client = await document(
      'client create acme/web --name CI --scope mcp:tools:read --tools read-only',
    );

    expect([key, client]).toMatchObject([{ tools: ['get', 'search'] }, { tools: 'read-only' }]);
    expect(await document(`key update ${key['id']} --tools all`)).toMatchObject({ tools: 'all' });
    expect(await document(`client update ${client['client_id']} --tools get`)).toMatchObject({
      tools: ['get'],
    });
  });

  test.each([
    [['key', 'create', 'acme/web', '--name', 'CI', '--tools', ',']],
    [['key', 'create', 'acme/web', '--name', 'CI', '--tools', '']],
    [['key', 'update', 'key_none']],
  ])('is wrong usage in %j', async (argv) => {
    await using admin = await administrationWithServer();

    await expect(admin.run(...argv)).rejects.toMatchObject({ name: 'UsageError' });
  });
});

describe('a selection on the command line', () => {
  test.each([
    ['all', { type: 'all' }],
    ['read-only', { type: 'read-only' }],
    ['search,get', { ...chosen, tools: ['search', 'get'] }],
    ['call', { ...chosen, tools: ['call'] }],
    ['readonly,', { ...chosen, tools: ['readonly'] }],
    ['readonly,search', { ...chosen, tools: ['readonly', 'search'] }],
  ])('%s is read', (text, selection) => {
    expect(readSelection(text, 'tools')).toEqual(selection);
  });

  test.each([
    ['readonly', 'read-only'],
    ['read_only', 'read-only'],
    ['ReadOnly', 'read-only'],
    ['read-onyl', 'read-only'],
    ['ALL', 'all'],
  ])('%s is refused, because %s was meant', (text, meant) => {
    expect(() => readSelection(text, 'tools')).toThrow(
      expect.objectContaining({
        name: 'UsageError',
        message: `--tools '${text}' is neither all nor read-only`,
        hint: `did you mean ${meant}? If it is the name of a tool, put a comma after it: ${text},`,
      }),
    );
  });

  test('without a name is refused', () => {
    expect(() => readSelection(',', 'tools')).toThrow('neither all, read-only nor names of tools');
  });
});
