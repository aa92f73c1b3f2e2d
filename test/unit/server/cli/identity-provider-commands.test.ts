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

test.each([
  [
    'https://id.example',
    'check the spelling, and DNS with latchkey-server doctor --reach id.example; if it is in your network: latchkey-server outbound allow id.example:443',
  ],
  ['https://10.0.0.1', 'if it is in your network: latchkey-server outbound allow 10.0.0.1:443'],
  ['https://[fd00::1]', "if it is in your network: latchkey-server outbound allow '[fd00::1]:443'"],
])('a provider at %s is refused with a hint', async (issuer, hint) => {
  await using folder = await temporaryFolder('idp');
  const file = join(folder.path, 'secret');
  writeFileSync(file, 'very secret\n');
  const words = ['--name', 'Acme ID', '--issuer', issuer, '--client-id', 'latchkey'];

  await expect(
    admin.run('provider', 'create', 'acme', ...words, '--client-secret-file', file),
  ).rejects.toMatchObject({ name: 'UsageError', hint });
});

test('an operator switches assertions of a provider on for a client and a server, and for all of them again', async () => {
  const server = z.looseObject({ server: z.string() });
  const created = z.looseObject({ id: z.string() });
  const provider = ['--name', 'Vendor', '--issuer', 'https://127.0.0.1:9'];
  const { id } = created.parse(await admin.json('provider', 'create', 'acme', ...provider));
  const client = z
    .looseObject({ client_id: z.string(), client_secret: z.string() })
    .parse(await admin.json('client', 'create-for-organization', 'acme', '--name', 'Claude'));
  const change = (...words: string[]) => admin.json('provider', 'assertions', 'acme', id, ...words);
  const some = await change('--allow', 'yes', '--client', client.client_id);
  const all = await change('--client', '', '--keys-url', '');
  const issuer = ['--issuer', 'https://127.0.0.1:9/ci', '--subject', 'repo:acme/app:*'];
  const limits = ['--single-use', 'no', '--longest-life', '600'];
  const trust = ['--name', 'CI', ...issuer, ...limits];
  const workload = await admin.json('workload', 'create', 'acme', ...trust);
  const list = z.array(server).parse(await admin.json('client', 'list', 'acme'));

  expect(some).toMatchObject({ assertions: 'allowed', assertion_clients: [client.client_id] });
  expect(all).toMatchObject({ assertions: 'allowed', assertion_clients: [] });
  expect(workload).toMatchObject({ trusted_subject: 'repo:acme/app:*' });
  expect(list.map((one) => one.server)).toContain('acme/*');
  await expect(admin.run('provider', 'assertions', 'acme', id)).rejects.toThrow(
    'give what to change',
  );
});
