import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { linkMember } from '#server/db/member-identities';
import { findUserByEmail } from '#server/db/people';
import { freePort } from '#support/loopback';
import { temporaryFolder } from '#support/temporary-folder';
import type { Scene } from './scene.ts';

/** An identity provider of the organization, its people and applications, and the domains. */
export const providerScenes: Scene = async ({ dana, furnished, album }) => {
  const { page, open, press, fill } = dana;
  const { server, stores, organizationId } = furnished;
  const { db } = stores;
  const now = Math.floor(Date.now() / 1000);
  await using folder = await temporaryFolder('pictures');
  const secretFile = join(folder.path, 'secret');
  writeFileSync(secretFile, 'the secret of latchkey there');
  const issuer = `http://127.0.0.1:${await freePort()}`;
  const client = ['--client-id', 'latchkey', '--client-secret-file', secretFile];
  const place = ['--outbound-host', '127.0.0.1', '--master-key-file', server.masterKeyFile];
  const words = ['--name', 'Acme Work ID', '--issuer', issuer, ...client, ...place, '--json'];
  const { id: providerId } = JSON.parse(
    await server.command(['provider', 'create', 'acme', ...words]),
  );
  await server.command(['domain', 'add', 'acme', 'example.com']);
  await server.command(['domain', 'confirm', 'acme', 'example.com']);
  for (const who of ['viola@example.com', 'mark@example.com']) {
    const { id: userId = '' } = (await findUserByEmail(db, who)) ?? {};
    await linkMember(
      db,
      { providerId, subject: `subject of ${who}` },
      { organizationId, userId },
      now,
    );
  }
  await open('/sign-in');
  await fill({ Domain: 'not a domain' });
  await press('Add domain');
  await album.take(page, 'sign-in-domain-wrong');
  await fill({ Domain: 'subsidiary.example.com' });
  await press('Add domain');
  await page.waitForURL('**/sign-in?done=domain-added');
  await album.take(page, 'sign-in-domains', { isTable: true });
  const provider = `/sign-in/providers/${providerId}`;
  for (const [name, path] of Object.entries({
    provider,
    'provider-edit': `${provider}/edit`,
    'provider-assertions': `${provider}/assertions`,
    'question-provider-disable': `${provider}/disable`,
    'question-provider-remove': `${provider}/remove`,
  })) {
    await open(path);
    await album.take(page, name, { isTable: name === 'provider' });
  }
  await open(provider);
  await press('Test sign-in');
  await page.getByRole('heading', { name: 'The provider cannot be used' }).waitFor();
  await album.take(page, 'provider-test-failed');
};
