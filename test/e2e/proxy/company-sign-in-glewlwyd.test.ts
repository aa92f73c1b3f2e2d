import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { glewlwyd, type Glewlwyd } from '#support/glewlwyd';
import { assistantFiles, personComputer, type PersonComputer } from '#support/person-computer';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const endpoints = ['finance', 'sales', 'support'];
const email = 'dana@example.com';
const password = 'correct horse battery';
const made = z.object({ id: z.string(), redirect_uri: z.string() });
const deviceList = z.object({
  lists: z.array(
    z.object({
      devices: z.array(z.object({ current: z.boolean(), servers: z.array(z.string()) })),
    }),
  ),
});

/** What the administrators of Acme do, who have Glewlwyd. It issues no identity assertions. */
async function setUp(server: ServerProcess, provider: Glewlwyd): Promise<void> {
  await using folder = await temporaryFolder('setup');
  const secretFile = join(folder.path, 'secret');
  writeFileSync(secretFile, provider.clientSecret, { mode: 0o600 });
  await server.command(['organization', 'create', 'acme']);
  for (const name of endpoints)
    await server.command(['server', 'create', `acme/${name}`, '--demo']);
  // She never gets this password: the directory of the company made her account.
  const member = ['user', 'create', email, '--organization', 'acme', '--role', 'member'];
  await server.command(member, 'a password that nobody knows');
  const client = ['--client-id', 'latchkey', '--client-secret-file', secretFile];
  const place = ['--outbound-host', '127.0.0.1', '--master-key-file', server.masterKeyFile];
  const trust = ['--trust-email', 'yes', '--base-url', server.base, '--json'];
  const named = ['--name', 'Acme ID', '--issuer', provider.issuer];
  const words = ['provider', 'create', 'acme', ...named, ...client, ...place, ...trust];
  const { id, redirect_uri: redirectUri } = made.parse(JSON.parse(await server.command(words)));
  const logoutUri = `${server.base}/sign-in/provider/${id}/backchannel-logout`;
  await provider.addClient({ redirectUri, logoutUri });
  await provider.addUser('dana', email, password);
  await server.command(['domain', 'add', 'acme', 'example.com']);
  await server.command(['domain', 'confirm', 'acme', 'example.com']);
}

await suite(
  ['keychain', 'browser', 'glewlwyd'],
  'a company whose people sign in at Glewlwyd',
  () => {
    let provider: Glewlwyd;
    let server: ServerProcess;
    let computer: PersonComputer;

    beforeAll(async () => {
      provider = await glewlwyd();
      server = await serverProcess({ args: ['--outbound-host', '127.0.0.1'] });
      await setUp(server, provider);
      computer = await personComputer();
    });
    afterAll(async () => {
      await computer[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      await provider[Symbol.asyncDispose]();
    });

    const url = (name: string) => `${server.base}/mcp/acme/${name}`;
    /** Signs in on the pages of Glewlwyd, which also ask what Latchkey may know, and allows the servers. */
    const signIn = async () => {
      const { page, click, opened, outcome } = computer;
      await page.goto(await opened());
      await click('Continue');
      await page.locator('#username').fill('dana');
      await page.locator('input[type=password]').fill(password);
      await click({ selector: 'button[type=submit]' });
      await click({ selector: 'role=checkbox[name=/email/i]' });
      await click({ selector: 'role=button[name=/Grant access/]' });
      await click({ selector: 'role=button[name=/Continue/]' });
      await click('Allow');
      return outcome();
    };

    test('from an empty computer: three endpoints in two assistants after one sign-in, with one command, six clicks and one consent', async () => {
      const setup = ['setup', `${server.base}/mcp/acme`, '--yes'];
      const { code, stdout, stderr } = await computer.withPage(signIn, ...setup);
      const tools = [];
      for (const file of assistantFiles)
        for (const name of endpoints) {
          const { result } = await computer.through(file, name, async (proxy) => {
            await proxy.handshake();
            const sql = 'select count(*) as n from books';
            return proxy.request('tools/call', { name: 'query', arguments: { sql } });
          });
          tools.push(JSON.stringify(result));
        }

      expect({ code, stderr }).toMatchObject({ code: 0 });
      expect(stdout).toContain(`signed in to ${server.base} as ${email}`);
      for (const name of endpoints) expect(stdout).toContain(`added ${name}: ${url(name)}`);
      expect(computer.counts()).toEqual({ commands: 1, clicks: 6, pages: 0 });
      expect(tools).toHaveLength(6);
      for (const answer of tools) expect(answer).toMatch(/\d{3,}/);
    });

    test('the servers belong to the computer, and choosing again needs one click, because the browser is still signed in', async () => {
      const { devices } = deviceList.parse(
        JSON.parse((await computer.latchkey('devices', '--json')).stdout),
      ).lists[0] ?? { devices: [] };
      await server.command(['server', 'create', 'acme/wiki', '--demo']);
      const rerun = await computer.latchkey('setup', `${server.base}/mcp/acme`, '--yes');
      const before = computer.counts();
      const again = async () => {
        const { page, click, opened, outcome } = computer;
        await page.goto(await opened());
        await click('Allow');
        return outcome();
      };
      const chosen = await computer.withPage(again, 'setup', server.base, '--choose', '--yes');
      const after = computer.counts();

      expect(devices).toEqual([
        { current: true, servers: endpoints.map((name) => `acme/${name}`) },
      ]);
      expect(rerun).toMatchObject({ code: 0, stdout: expect.not.stringContaining('signed in') });
      expect(before.pages).toBe(0);
      expect({ code: chosen.code, stderr: chosen.stderr }).toMatchObject({ code: 0 });
      expect([after.commands - before.commands, after.clicks - before.clicks]).toEqual([1, 1]);
    });
  },
);
