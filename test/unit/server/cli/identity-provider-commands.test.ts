import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';

import { administrationWithServer, type Administration } from '#support/administration';
import { temporaryFolder } from '#support/temporary-folder';

let admin: Administration;
beforeEach(async () => {
  admin = await administrationWithServer();
});
afterEach(() => admin[Symbol.asyncDispose]());

test('an operator adds a provider and a domain, and confirms the domain where there is no DNS', async () => {
  await using folder = await temporaryFolder('idp');
  const file = join(folder.path, 'secret');
  writeFileSync(file, 'very secret\n');
  const client = ['--client-id', 'latchkey', '--client-secret-file', file];
  const words = [
    '--name',
    'Acme ID',
    '--issuer',
    'https://127.0.0.1:9',
    ...client,
    '--trust-email',
    'yes',
  ];
  const made = z
    .looseObject({ id: z.string() })
    .parse(await admin.json('provider', 'create', 'acme', ...words));
  const place = ['acme', made.id];
  const changed = await admin.json('provider', 'update', ...place, '--joining-role', 'viewer');
  const added = await admin.run('domain', 'add', 'acme', 'Acme.example');
  const confirmed = await admin.json('domain', 'confirm', 'acme', 'acme.example');
  const list = JSON.stringify([
    await admin.json('provider', 'list', 'acme'),
    await admin.json('provider', 'members', ...place),
  ]);
  const disabled = await admin.json('provider', 'disable', ...place);
  await admin.run('provider', 'remove', ...place);

  expect([made, changed, disabled]).toMatchObject([
    { status: 'untested' },
    { id: made.id },
    { status: 'disabled' },
  ]);
  expect(list).toContain('"issuer":"https://127.0.0.1:9"');
  expect(list).not.toContain('very secret');
  expect(added.join('\n')).toContain('latchkey-domain=');
  expect(confirmed).toMatchObject({ status: 'proved', proved_by: 'operator' });
  await expect(admin.run('provider', 'update', ...place)).rejects.toThrow('give what to change');
  await expect(admin.run('domain', 'prove', 'acme', 'acme.example')).rejects.toThrow(
    'has no TXT record',
  );
});
