import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { becomeOwner, dashboardVisitor, email } from '#support/dashboard-visitor';
import { freePort } from '#support/loopback';
import { serverProcess } from '#support/server-process';
import { temporaryFolder } from '#support/temporary-folder';
import type { Scene } from './scene.ts';

/** How people come to a server of its own: the first owner, an invitation, a new password, a provider that vouches. */
export const arrivalScenes: Scene = async ({ browser, album }) => {
  await using folder = await temporaryFolder('pictures');
  const secretFile = join(folder.path, 'secret');
  writeFileSync(secretFile, 'the secret of latchkey there');
  const issuer = ['--oidc-issuer', `http://127.0.0.1:${await freePort()}`];
  const client = ['--oidc-client-id', 'latchkey', '--oidc-client-secret-file', secretFile];
  const args = [...issuer, ...client, '--oidc-name', 'Acme ID'];
  await using server = await serverProcess({ host: 'localhost', args });
  const linkOf = async (words: string) => {
    const made = await server.command([...words.split(' '), '--base-url', server.base, '--json']);
    return String(JSON.parse(made).link);
  };
  const owner = await dashboardVisitor(browser, server);
  const { fill: typeAsOwner } = owner;
  await owner.page.goto(`${server.base}/download/`);
  await album.take(owner.page, 'download');
  await owner.page.goto(`${server.base}/download/bundle?url=sales`);
  await album.take(owner.page, 'download-wrong');
  await owner.page.goto(/http:\S+\/set-up\/\S+/.exec(server.program.stdout)?.[0] ?? '');
  await album.take(owner.page, 'set-up');
  await typeAsOwner({ Organization: 'Not a Name', 'E-mail': 'dana', 'New password': 'short' });
  await owner.press('Create account');
  await album.take(owner.page, 'set-up-wrong');
  await becomeOwner(owner, server);
  await album.take(owner.page, 'dashboard-first');
  await owner.open('/single-sign-on');
  await album.take(owner.page, 'single-sign-on');
  await owner.press('Test sign-in');
  await owner.page.getByRole('heading', { name: 'The provider cannot be used' }).waitFor();
  await album.take(owner.page, 'single-sign-on-failed');

  await owner.page.goto(`${server.base}/mcp/acme/a-server-with-a-long-name-for-the-warehouse`);
  await album.take(owner.page, 'mcp-endpoint');

  const guest = await dashboardVisitor(browser, server);
  const { fill: typeAsGuest } = guest;
  await guest.page.goto(`${server.base}/sign-in`);
  await album.take(guest.page, 'sign-in-provider');
  const invitation = await linkOf('invitation create acme --role member');
  await guest.page.goto(invitation);
  await album.take(guest.page, 'invitation');
  await guest.press('Create account and join');
  await album.take(guest.page, 'invitation-wrong');
  await owner.page.goto(invitation);
  await album.take(owner.page, 'invitation-signed-in');
  await guest.page.goto(await linkOf(`user reset-link ${email}`));
  await album.take(guest.page, 'reset');
  await typeAsGuest({ 'New password': 'short', 'Confirm new password': 'other' });
  await guest.press('Set password');
  await album.take(guest.page, 'reset-wrong');
  await guest.context.close();
  await owner.context.close();
};
