import { describe, expect, test } from 'vitest';
import { agentCreate, agentRead } from '#server/admin/agents';
import { keyCreate, keyRead, keyRevoke, keyRotate } from '#server/admin/keys';
import { administered } from '#support/administered';
import { keysOf } from '#support/made-records';
import { hashSecret } from '#server/secrets/secrets';
import { sqliteAdmissions } from '#server/db/sqlite/admission-store';
import { administrationWithServer, type Administration } from '#support/administration';
import { newestEvents } from '#support/newest-events';

const create = ['key', 'create', 'acme/web', '--name', 'my laptop'];

interface Made {
  readonly id: string;
  readonly key: string;
}

async function made(admin: Administration, ...argv: string[]): Promise<Made> {
  const document: Made = JSON.parse((await admin.run(...argv, '--json')).join('\n'));
  return document;
}

describe('key create', () => {
  test('prints a key that opens its server with all scopes but manage', async () => {
    await using admin = await administrationWithServer();
    const document = await made(admin, ...create);
    const place = { organization: 'acme', server: 'web', now: admin.clock.now() };
    const admitted = await sqliteAdmissions(admin.stores.connection).byKey({
      ...place,
      keyHash: hashSecret(document.key),
    });

    expect(document).toEqual({
      id: expect.stringMatching(/^key_[0-9A-Za-z]{16}$/),
      name: 'my laptop',
      key: expect.stringMatching(/^mcp_[0-9A-Za-z]{36}$/),
      scopes: ['mcp:tools:read', 'mcp:tools:execute', 'mcp:resources:read', 'mcp:server:read'],
      tools: 'all',
      expires_at: null,
    });
    expect(admitted).toMatchObject({ keyId: document.id, endpoint: { name: 'web' } });
  });

  test('gives exactly the requested scopes and days', async () => {
    await using admin = await administrationWithServer();

    expect(
      await admin.json(...create, '--scope', 'mcp:server:manage', '--expires-in-days', '90'),
    ).toMatchObject({
      scopes: ['mcp:server:manage'],
      expires_at: admin.clock.now() + 90 * 86_400,
    });
  });

  test.each(['0', '-1', '1.5', '100000', 'ten', '1e3', ''])(
    'refuses %j days as wrong usage',
    async (days) => {
      await using admin = await administrationWithServer();

      await expect(admin.run(...create, `--expires-in-days=${days}`)).rejects.toMatchObject({
        name: 'UsageError',
      });
      expect(await keysOf(admin.stores.db, 'acme')).toEqual([]);
    },
  );

  test('refuses an unknown scope and an unknown server', async () => {
    await using admin = await administrationWithServer();

    await expect(admin.run(...create, '--scope', 'all')).rejects.toMatchObject({
      name: 'UsageError',
    });
    await expect(admin.run(...create.with(2, 'acme/other'))).rejects.toMatchObject({
      name: 'CommandError',
    });
  });
});

test('key list prints who created a key, its scopes and times, and only the hint of the key', async () => {
  await using admin = await administrationWithServer();
  const { id, key } = await made(admin, ...create, '--scope', 'mcp:tools:read');

  expect(await admin.json('key', 'list', 'acme/web')).toEqual([
    {
      id,
      name: 'my laptop',
      key: `mcp_…${key.slice(-4)}`,
      server: 'acme/web',
      scopes: ['mcp:tools:read'],
      tools: 'all',
      created_by: 'operator',
      replaces: null,
      replaced_by: null,
      created_at: admin.clock.now(),
      last_used_at: null,
      expires_at: null,
      revoked_at: null,
    },
  ]);
  await expect(admin.run('key', 'list', 'acme/other')).rejects.toThrow(
    'there is no server acme/other',
  );
  await expect(admin.run('key', 'list', 'other')).rejects.toThrow('organization other not found');
});

test('key list names the key that another replaces, until the older one is revoked', async () => {
  await using admin = await administrationWithServer();
  const { id, key: older } = await made(admin, ...create);
  admin.clock.advance(1);
  const { key: newer } = await made(admin, 'key', 'rotate', id);
  const hint = (key: string) => `mcp_…${key.slice(-4)}`;

  expect(await admin.json('key', 'list', 'acme')).toMatchObject([
    { key: hint(older), replaces: null, replaced_by: hint(newer) },
    { key: hint(newer), replaces: hint(older), replaced_by: null },
  ]);
  await admin.run('key', 'revoke', id);
  expect(await admin.json('key', 'list', 'acme')).toMatchObject([
    { replaced_by: null },
    { replaces: null },
  ]);
});

test('key revoke ends a key by its id, once', async () => {
  await using admin = await administrationWithServer();
  const { id } = await made(admin, ...create);

  expect(await admin.json('key', 'revoke', id)).toEqual({ id, revoked_at: admin.clock.now() });
  expect(await admin.json('key', 'list', 'acme')).toMatchObject([
    { revoked_at: admin.clock.now() },
  ]);
  await expect(admin.run('key', 'revoke', id)).rejects.toMatchObject({
    name: 'CommandError',
    message: `there is no active key ${id}`,
  });
});

describe('key rotate', () => {
  const chosen = ['--scope', 'mcp:tools:read', '--expires-in-days', '90'];

  test('prints a key that replaces another, and leaves that one active', async () => {
    await using admin = await administrationWithServer();
    const old = await made(admin, ...create, ...chosen);
    admin.clock.advance(30 * 86_400);

    const rotated = await made(admin, 'key', 'rotate', old.id);

    expect(rotated).toEqual({
      id: expect.stringMatching(/^key_[0-9A-Za-z]{16}$/),
      name: 'my laptop',
      key: expect.stringMatching(/^mcp_[0-9A-Za-z]{36}$/),
      scopes: ['mcp:tools:read'],
      tools: 'all',
      expires_at: admin.clock.now() + 90 * 86_400,
    });
    expect(rotated.id).not.toBe(old.id);
    expect(rotated.key).not.toBe(old.key);
    expect(await admin.json('key', 'list', 'acme')).toMatchObject([
      { id: old.id, revoked_at: null },
      { id: rotated.id, server: 'acme/web', revoked_at: null },
    ]);
  });

  test('tells a person, not a script, how to revoke the older key', async () => {
    await using admin = await administrationWithServer();
    const old = await made(admin, ...create);

    expect((await admin.run('key', 'rotate', old.id)).at(-1)).toBe(
      `hint: once nothing uses the older key: latchkey-server key revoke ${old.id}`,
    );
  });

  test('refuses a revoked key, and names the command for a key of an agent', async () => {
    await using admin = await administrationWithServer();
    const old = await made(admin, ...create);
    await admin.run('key', 'revoke', old.id);
    await admin.run('agent', 'create', 'acme/office');
    const agentKey = await made(admin, 'agent', 'create-key', 'acme/office');

    await expect(admin.run('key', 'rotate', old.id)).rejects.toMatchObject({
      name: 'CommandError',
      message: `there is no active key ${old.id}`,
    });
    await expect(admin.run('key', 'rotate', agentKey.id)).rejects.toMatchObject({
      name: 'CommandError',
      hint: 'latchkey-server agent create-key acme/office',
    });
  });
});

describe('key.rotate', () => {
  const web = { organization: 'acme', server: 'web' };

  test('creates one key with the name, scopes and lifetime of the old one, which stays active', async () => {
    await using at = await administered();
    const admin = await at.person('admin');
    const scopes = ['mcp:server:read'];
    const old = await at.perform(
      keyCreate,
      { ...web, name: 'CI', scopes, expiresInDays: 7 },
      admin,
    );
    at.clock.advance(86_400);

    const { key, ...view } = await at.perform(
      keyRotate,
      { organization: 'acme', keyId: old.id },
      admin,
    );
    const kept = { organization: 'acme', keyId: old.id };

    expect(view).toMatchObject({ name: 'CI', server: 'web', scopes, status: 'active' });
    expect(view.expiresAt).toBe(at.clock.now() + 7 * 86_400);
    expect(key).toMatch(/^mcp_/);
    expect(await at.perform(keyRead, kept)).toMatchObject({ id: old.id, status: 'active' });
    expect(await keysOf(at.stores.db, 'acme')).toHaveLength(2);
  });

  test('a key without an expiry is replaced by one without an expiry', async () => {
    await using at = await administered();
    const old = await at.perform(keyCreate, { ...web, name: 'CI' });

    expect(await at.perform(keyRotate, { organization: 'acme', keyId: old.id })).toMatchObject({
      expiresAt: null,
    });
  });

  test('the audit log names both keys, and contains neither value', async () => {
    await using at = await administered();
    const admin = await at.person('admin');
    const old = await at.perform(keyCreate, { ...web, name: 'CI' });
    const rotated = await at.perform(keyRotate, { organization: 'acme', keyId: old.id }, admin);

    const events = await newestEvents(at.stores.db, 100);
    const [event] = events;

    expect(event).toMatchObject({
      action: 'key.rotate',
      target: `key:${old.id}/${rotated.id}`,
      organization: 'acme',
      outcome: 'done',
    });
    expect(JSON.stringify(events)).not.toContain(rotated.key);
  });

  test('82: a key of an agent is read by those who may see agents, and by nobody else', async () => {
    await using at = await administered();
    await at.perform(agentCreate, { organization: 'acme', name: 'office' });
    const { keys } = await at.perform(agentRead, { organization: 'acme', agent: 'office' });
    const ofKey = { organization: 'acme', keyId: keys[0]?.id };
    const member = await at.person('member');

    expect(await at.perform(keyRead, ofKey, await at.person('admin'))).toMatchObject({
      agent: 'office',
    });
    await expect(at.perform(keyRead, ofKey, member)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('a member, an admin of another organization, a revoked key and a key of an agent are refused, and nothing is created', async () => {
    await using at = await administered();
    const { id: keyId } = await at.perform(keyCreate, { ...web, name: 'CI' });
    const ofKey = { organization: 'acme', keyId };
    await at.perform(agentCreate, { organization: 'acme', name: 'office' });
    const { keys } = await at.perform(agentRead, { organization: 'acme', agent: 'office' });
    const agentKey = { organization: 'acme', keyId: keys[0]?.id };
    const member = await at.person('member');
    const stranger = await at.person('admin', 'other');

    await expect(at.perform(keyRotate, ofKey, member)).rejects.toMatchObject({ code: 'forbidden' });
    await expect(
      at.perform(keyRotate, { ...ofKey, organization: 'other' }, stranger),
    ).rejects.toMatchObject({ code: 'not_found' });
    await expect(at.perform(keyRotate, agentKey)).rejects.toMatchObject({ code: 'not_found' });
    await at.perform(keyRevoke, ofKey);
    await expect(at.perform(keyRotate, ofKey)).rejects.toMatchObject({ code: 'conflict' });
    expect(await keysOf(at.stores.db, 'acme')).toHaveLength(1);
  });
});
