import { expect, test } from 'vitest';
import { checkClientSecret } from '#server/db/client-secrets';
import { findClient, putDocumentedClient } from '#server/db/clients';
import { updateLastUses } from '#server/db/last-uses';
import { hashSecret } from '#server/secrets/secrets';
import { administrationWithServer, type Administration } from '#support/administration';

const create = ['client', 'create', 'acme/web', '--name', 'Claude', '--scope', 'mcp:tools:read'];

interface Made {
  readonly client_id: string;
  readonly client_secret: string;
}

async function made(admin: Administration, ...more: string[]): Promise<Made> {
  const document: Made = JSON.parse((await admin.run(...create, ...more, '--json')).join('\n'));
  return document;
}

test('client create prints the fields of the contract, and the secret authenticates the client', async () => {
  await using admin = await administrationWithServer();
  const document = await made(
    admin,
    '--scope',
    'mcp:tools:execute',
    '--redirect-uri',
    'http://127.0.0.1/cb',
  );
  const { client_id: id, client_secret: secret } = document;

  expect(document).toEqual({
    client_id: expect.stringMatching(/^client_[0-9A-Za-z]{24}$/),
    client_secret: expect.stringMatching(/^secret_[0-9A-Za-z]{36}$/),
    name: 'Claude',
    scopes: ['mcp:tools:read', 'mcp:tools:execute'],
    tools: 'all',
  });
  expect(await checkClientSecret(admin.stores.db, id, hashSecret(secret), admin.clock.now())).toBe(
    true,
  );
  expect(await findClient(admin.stores.db, id)).toMatchObject({
    serverPath: 'acme/web',
    redirectUris: ['http://127.0.0.1/cb'],
    createdAt: admin.clock.now(),
  });
});

test('client revoke refuses the client of Latchkey’s own proxy without --yes', async () => {
  await using admin = await administrationWithServer();
  const id = 'https://mcp.acme.example/oauth/clients/latchkey.json';
  const redirectUris = ['http://127.0.0.1/callback'];
  const document = { id, name: 'Latchkey', redirectUris, jwks: undefined };
  await putDocumentedClient(admin.stores.db, { ...document, isLatchkeyProxy: true }, 1);
  const revoked = async () => (await findClient(admin.stores.db, id))?.revokedAt;

  await expect(admin.run('client', 'revoke', id)).rejects.toMatchObject({
    message: expect.stringContaining('ends every proxy in all organizations for good'),
    hint: expect.stringContaining('organization update ORG --latchkey-proxy no'),
  });
  expect(await revoked()).toBeUndefined();
  await admin.run('client', 'revoke', id, '--yes');
  expect(await revoked()).toBe(admin.clock.now());
});

test('client create tells a person that the secret is shown only once', async () => {
  await using admin = await administrationWithServer();
  const lines = await admin.run(...create);

  expect(lines).toEqual([
    expect.stringMatching(/^client_id +client_\w{24}$/),
    expect.stringMatching(/^client_secret +secret_\w{36}$/),
    'name           Claude',
    'scopes         mcp:tools:read',
    'tools          all',
    'hint: store the client_secret now; it is not shown again',
  ]);
});

test('client list prints the fields of the contract, and only the hint of the secret', async () => {
  await using admin = await administrationWithServer();
  const { client_id, client_secret } = await made(admin);
  await updateLastUses(admin.stores.db, [{ type: 'client', id: client_id, usedAt: 1_800_000_500 }]);
  const document = await admin.json('client', 'list', 'acme');

  expect(document).toEqual([
    {
      client_id,
      client_secret: `secret_…${client_secret.slice(-4)}`,
      name: 'Claude',
      server: 'acme/web',
      scopes: ['mcp:tools:read'],
      tools: 'all',
      created_at: admin.clock.now(),
      last_used_at: 1_800_000_500,
      expires_at: null,
      revoked_at: null,
    },
  ]);
  expect(JSON.stringify(document)).not.toContain(client_secret);
  expect(await admin.json('client', 'list', 'acme/web')).toEqual(document);
});

test('client list prints a table with readable times for a person', async () => {
  await using admin = await administrationWithServer();

  expect(await admin.run('client', 'list', 'acme')).toEqual([
    expect.stringContaining('no OAuth clients yet'),
  ]);
  expect(await admin.json('client', 'list', 'acme')).toEqual([]);

  await made(admin);
  const [head, row] = await admin.run('client', 'list', 'acme');

  expect(head).toMatch(
    /^client_id +client_secret +name +server +scopes +tools +created_at +last_used_at +expires_at +revoked_at$/,
  );
  expect(row).toMatch(
    /^client_\w{24} +secret_…\w{4} +Claude +acme\/web +mcp:tools:read +all +2027-01-15T08:00:00Z +- +- +-$/,
  );
});

test('client revoke ends a client by its client_id, once', async () => {
  await using admin = await administrationWithServer();
  const { client_id } = await made(admin);
  admin.clock.advance(60);

  expect(await admin.json('client', 'revoke', client_id)).toEqual({
    client_id,
    revoked_at: admin.clock.now(),
  });
  expect(await admin.json('client', 'list', 'acme')).toMatchObject([
    { revoked_at: admin.clock.now() },
  ]);
  await expect(admin.run('client', 'revoke', client_id)).rejects.toMatchObject({
    name: 'CommandError',
  });
  await expect(admin.run('client', 'revoke', 'client_unknown')).rejects.toThrow(
    'there is no active client',
  );
});
