import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';

import { Provider } from 'oidc-provider';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { accessibilityProblems, chromium, pictures } from '#support/chromium';
import { freePort } from '#support/loopback';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { temporaryFolder, type TemporaryFolder } from '#support/temporary-folder';

const email = 'dana@example.com';
const password = 'correct horse battery';
const account = (url: URL) => url.pathname === '/account';

await suite('browser', 'single sign-on by an independent provider', () => {
  let folder: TemporaryFolder;
  let provider: Server;
  let server: ServerProcess;
  let browser: Browser;

  beforeAll(async () => {
    folder = await temporaryFolder('sso');
    const port = await freePort();
    const issuer = `http://127.0.0.1:${port}`;
    const file = join(folder.path, 'secret');
    writeFileSync(file, 'the secret of latchkey there');
    const where = ['--oidc-issuer', issuer, '--oidc-client-id', 'latchkey'];
    const rest = ['--oidc-client-secret-file', file, '--oidc-name', 'Acme ID'];
    server = await serverProcess({ host: 'localhost', args: [...where, ...rest] });
    const oidc = new Provider(issuer, {
      clients: [
        {
          client_id: 'latchkey',
          client_secret: 'the secret of latchkey there',
          redirect_uris: [`${server.base}/sign-in/provider/callback`],
        },
      ],
      claims: { openid: ['sub'], email: ['email', 'email_verified'] },
      pkce: { required: () => true },
      findAccount: (_ctx, sub) => ({
        accountId: sub,
        claims: () => ({ sub, email, email_verified: true }),
      }),
    });
    provider = createServer(oidc.callback()).listen(port, '127.0.0.1');
    await server.command(['organization', 'create', 'acme']);
    const words = ['user', 'create', email, '--organization', 'acme', '--role', 'owner'];
    await server.command(words, password);
    browser = await chromium();
  });
  afterAll(async () => {
    await browser.close();
    provider.closeAllConnections();
    await new Promise((resolve) => provider.close(resolve));
    await server[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });

  /** The provider's own pages: any name and password will do there. */
  const vouch = async (page: Page) => {
    await page.locator('input[name=login]').fill('dana-there');
    await page.locator('input[name=password]').fill('x');
    await page.locator('button[type=submit]').click();
    await page.getByRole('button', { name: 'Continue' }).click();
  };

  test('a linked account signs in, without scripts as well', async () => {
    const first = await browser.newPage({ javaScriptEnabled: false });
    await first.goto(`${server.base}/sign-in?next=/account`);
    await first.getByLabel('E-mail').fill(email);
    await first.getByLabel('Password').fill(password);
    await first.getByRole('button', { name: 'Sign in', exact: true }).click();
    await first.getByRole('button', { name: 'Link it' }).click();
    await vouch(first);
    await first.waitForURL('**/account?done=linked');

    const second = await browser.newPage();
    await second.goto(`${server.base}/sign-in?next=/account`);
    await pictures(second, 'sign-in-provider');
    const problems = await accessibilityProblems(second);
    await second.getByRole('button', { name: 'Sign in with Acme ID' }).click();
    await vouch(second);
    await second.waitForURL(account);

    expect(problems).toEqual([]);
    expect(await second.getByRole('button', { name: 'Unlink it' }).count()).toBe(1);
  });
});
