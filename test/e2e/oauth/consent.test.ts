import { createServer, type Server } from 'node:http';

import type { Browser as Chromium, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { createClient } from '#server/admin/create-credentials';
import { allScopes } from '#server/model/scopes';
import { passwordHashing } from '#server/accounts/passwords';
import { chromium, pageProblems } from '#support/chromium';
import { pkcePair } from '#support/authorization-server';
import { grantingServer, type GrantingServer } from '#support/granting-server';
import { listen } from '#support/loopback';
import { suite } from '#support/suite';
import { replacePasswordHash } from '#server/db/authenticators';
import { findUser } from '#server/db/people';

const password = 'correct horse battery staple';

await suite('browser', 'consent page in a browser', () => {
  let engine: Chromium;
  let server: GrantingServer;
  let email: string;
  let listener: Server;
  let port: number;
  let received: string[];
  beforeAll(async () => {
    engine = await chromium();
    server = await grantingServer();
    const { userId } = await server.browser('admin');
    await replacePasswordHash(server.stores.db, userId, await passwordHashing().hash(password));
    email = (await findUser(server.stores.db, userId))?.email ?? '';
    received = [];
    listener = createServer((request, response) => {
      received.push(request.url ?? '');
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Back</h1>');
    });
    port = await listen(listener);
  });
  afterAll(async () => {
    await engine.close();
    await server[Symbol.asyncDispose]();
    listener.closeAllConnections();
    listener.close();
  });

  const ask = async (clientId: string, redirectUri: string): Promise<Page> => {
    const context = await engine.newContext();
    const page = await context.newPage();
    const query = new URLSearchParams({
      client_id: clientId,
      response_type: 'code',
      redirect_uri: redirectUri,
      code_challenge: pkcePair().challenge,
      code_challenge_method: 'S256',
      state: 'state',
    });
    await page.goto(`${server.base}/oauth/consent?${query.toString()}`);
    await page.getByLabel('E-mail').fill(email);
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('button', { name: 'Allow', exact: true }).waitFor();
    return page;
  };
  const made = (name: string, redirectUri: string) =>
    createClient(
      {
        name,
        serverId: 'srv_sales',
        scopes: [...allScopes],
        redirectUris: [redirectUri],
        jwks: undefined,
      },
      { db: server.stores.db, clock: { now: () => Math.floor(Date.now() / 1000) } },
    );

  test.each(['127.0.0.1', '[::1]', 'localhost'])(
    'Allow leads back to the program that listens on %s',
    async (host) => {
      const { id } = await made('Claude', `http://${host}/callback`);
      const page = await ask(id, `http://${host}:${port}/callback`);
      const wanted = page.waitForRequest(/\/callback\?code=/);
      await page.getByRole('button', { name: 'Allow', exact: true }).click();
      const url = new URL((await wanted).url());
      await page.context().close();

      expect(url.hostname).toBe(host);
      expect(url.searchParams.get('code')).toMatch(/^code_/);
    },
  );

  test('Deny leads back as well, with the keyboard alone', async () => {
    const { id } = await made('Claude', 'http://127.0.0.1/denied');
    const page = await ask(id, `http://127.0.0.1:${port}/denied`);
    await page.getByRole('button', { name: 'Deny' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Back' }).waitFor();
    await page.context().close();

    expect(received).toContainEqual(expect.stringMatching(/^\/denied\?error=access_denied/));
  });

  test('the page is accessible on every screen size, in light and dark mode', async () => {
    const name = 'An assistant with a very long name 🔑 שלום that goes on and on and on and on';
    const { id } = await made(name, 'https://a-very-long-host-name.assistant.example/callback');
    const page = await ask(id, 'https://a-very-long-host-name.assistant.example/callback');
    const problems = await pageProblems(page);
    await page.context().close();
    const { id: local } = await made('Claude', 'http://127.0.0.1/callback');
    const warned = await ask(local, `http://127.0.0.1:${port}/callback`);
    problems.push(...(await pageProblems(warned)));
    await warned.context().close();

    expect(problems).toEqual([]);
  });
});
