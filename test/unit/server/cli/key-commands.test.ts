import { describe, expect, test } from 'vitest';
import { hashSecret } from '#server/credentials/secret-format';
import { sqliteAdmissions } from '#server/store/sqlite/admission-store';
import { administrationWithServer, type Administration } from '#support/administration';

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
      expires_at: null,
    });
    expect(admitted).toMatchObject({ keyId: document.id, server: { name: 'web' } });
  });

  test('gives exactly the scopes and the days that were asked for', async () => {
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
      expect(await admin.stores.keys.list('acme')).toEqual([]);
    },
  );

  test('refuses an unknown scope and a server that is not there', async () => {
    await using admin = await administrationWithServer();

    await expect(admin.run(...create, '--scope', 'all')).rejects.toMatchObject({
      name: 'UsageError',
    });
    await expect(admin.run(...create.with(2, 'acme/other'))).rejects.toMatchObject({
      name: 'CommandError',
    });
  });
});

test('key list prints the fields of the contract, and of the key its hint alone', async () => {
  await using admin = await administrationWithServer();
  const { id, key } = await made(admin, ...create, '--scope', 'mcp:tools:read');

  expect(await admin.json('key', 'list', 'acme/web')).toEqual([
    {
      id,
      name: 'my laptop',
      key: `mcp_…${key.slice(-4)}`,
      server: 'acme/web',
      scopes: ['mcp:tools:read'],
      created_at: admin.clock.now(),
      last_used_at: null,
      expires_at: null,
      revoked_at: null,
    },
  ]);
  await expect(admin.run('key', 'list', 'acme/other')).rejects.toThrow(
    'there is no server acme/other',
  );
  await expect(admin.run('key', 'list', 'other')).rejects.toThrow('there is no organization other');
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
