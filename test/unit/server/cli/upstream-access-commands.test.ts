import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { findOrganization } from '#server/db/organizations';
import { findServer } from '#server/db/servers';
import { administrationWithServer, type Administration } from '#support/administration';
import { temporaryFolder } from '#support/temporary-folder';
import { tokenUpstream } from '#support/token-upstream';
import { findUserByEmail } from '#server/db/people';
import { replaceUpstreamConnection } from '#server/db/upstream-connections';

let admin: Administration;
beforeEach(async () => {
  admin = await administrationWithServer();
});
afterEach(() => admin[Symbol.asyncDispose]());

describe('refused with a reason:', () => {
  test.each([
    ['no way', [], 'choose one of'],
    ['two ways', ['--none', '--per-person'], 'choose one of'],
    ['a word that is no answer', ['--forward-caller', 'perhaps'], 'neither yes nor no'],
    ['a server that is none over HTTP', ['--per-person', '--client-id', 'x'], 'only an HTTP'],
    [
      'a file that is not there',
      ['--client-credentials', '--client-id', 'x', '--client-secret-file', '/no/such'],
      '--client-secret-file /no/such does not exist',
    ],
    [
      'a folder in the place of a file',
      ['--client-credentials', '--client-id', 'x', '--client-secret-file', '.'],
      '--client-secret-file . is a folder, not a file',
    ],
  ])('%s', async (_, words, reason) => {
    await expect(admin.run('server', 'set-access', 'acme/web', ...words)).rejects.toThrow(reason);
  });

  test.each([
    ['no secret', '\n', 'is empty'],
    ['far more than a secret', 'x'.repeat(4 * 1024 * 1024 + 1), 'is larger than 4 MB'],
  ])('a file with %s', async (_, text, reason) => {
    await using folder = await temporaryFolder();
    const file = join(folder.path, 'secret');
    writeFileSync(file, text);
    const words = ['--client-credentials', '--client-id', 'x', '--client-secret-file', file];

    await expect(admin.run('server', 'set-access', 'acme/web', ...words)).rejects.toThrow(
      `--client-secret-file ${file} ${reason}`,
    );
  });
});

test('an operator sets it up, shows it, and lists and ends connections', async () => {
  await using upstream = await tokenUpstream();
  await admin.run('server', 'update', 'acme/web', '--http-url', upstream.url);
  const words = ['--per-person', '--client-id', 'ours', '--issuer', upstream.issuer];
  await admin.run('server', 'set-access', 'acme/web', ...words, '--forward-caller', 'yes');
  const shown = await admin.json('server', 'show-access', 'acme/web');
  const dana = ['user', 'create', 'dana@example.com', '--organization', 'acme', '--role', 'member'];
  await admin.run(...dana);
  const user = await findUserByEmail(admin.stores.db, 'dana@example.com');
  const server = await findServer(admin.stores.db, 'acme', 'web');
  const place = await findOrganization(admin.stores.db, 'acme');
  const accessId =
    server?.target.upstream.kind === 'http' ? server.target.upstream.accessId : undefined;
  await replaceUpstreamConnection(admin.stores.db, {
    id: 'upc_1',
    accessId: accessId ?? '',
    targetId: server?.target.id ?? '',
    userId: user?.id ?? '',
    organizationId: place?.id ?? '',
    sealedTokens: 'sealed',
    createdAt: 7,
  });
  const before = await admin.json('connection', 'list', 'acme/web');
  await admin.run('connection', 'end', 'acme/web', 'dana@example.com');

  expect(shown).toMatchObject({
    access: 'authorization_code',
    issuer: upstream.issuer,
    client_id: 'ours',
    redirect_path: '/dashboard/acme/servers/web/account/callback',
    forwards_caller: 'yes',
  });
  expect(before).toEqual([
    {
      user: 'dana@example.com',
      kind: 'account',
      created_at: 7,
      renewed_at: 7,
      failed_at: null,
      proved_at: null,
      last_used_at: null,
    },
  ]);
  expect(await admin.run('connection', 'list', 'acme/web')).toEqual([
    'no person has connected an account or entered a key',
  ]);
  await expect(admin.run('connection', 'end', 'acme/web', 'dana@example.com')).rejects.toThrow(
    'connection not found',
  );
});

test('saving the same client keeps people connected, and another client does not', async () => {
  await using upstream = await tokenUpstream();
  await admin.run('server', 'update', 'acme/web', '--http-url', upstream.url);
  const save = async (clientId: string, ...words: string[]) => {
    const access = ['--per-person', '--client-id', clientId, '--issuer', upstream.issuer];
    await admin.run('server', 'set-access', 'acme/web', ...access, ...words);
    const server = await findServer(admin.stores.db, 'acme', 'web');
    return server?.target.upstream.kind === 'http' ? server.target.upstream.accessId : undefined;
  };

  const first = await save('ours');

  expect(await save('ours', '--scope', 'read')).toBe(first);
  expect(await save('another')).not.toBe(first);
});
