import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { z } from 'zod';

import type { AssertionProvider } from '#support/assertion-provider';
import { pkcePair } from '#support/authorization-server';
import { companyComputer, type CompanyComputer } from '#support/company-computer';
import { patient } from '#support/patient';
import { assistantFiles } from '#support/person-computer';
import { serverProcess, type ServerProcess } from '#support/server-process';
import { suite } from '#support/suite';
import { temporaryFolder } from '#support/temporary-folder';

const endpoints = ['sales', 'support', 'finance'];
const email = 'dana@example.com';
const password = 'correct horse battery';
const managedFile = z.object({ identityProviders: z.array(z.looseObject({})) });
const made = z.object({ id: z.string() });
const devices = z.array(z.object({ id: z.string(), system: z.string() }));
const ended = z.object({ ended: z.int() });
const seconds = () => Math.floor(Date.now() / 1000);

/** Does what the administrators of Acme do at our server. Returns the id of their provider there. */
async function setUp(server: ServerProcess, company: AssertionProvider): Promise<string> {
  await using folder = await temporaryFolder('setup');
  const secretFile = join(folder.path, 'secret');
  writeFileSync(secretFile, company.clientSecret, { mode: 0o600 });
  await server.command(['organization', 'create', 'acme']);
  for (const name of endpoints)
    await server.command(['server', 'create', `acme/${name}`, '--demo']);
  await server.command(
    ['user', 'create', email, '--organization', 'acme', '--role', 'member'],
    password,
  );
  const client = ['--client-id', company.clientId, '--client-secret-file', secretFile];
  const place = ['--outbound-host', '127.0.0.1', '--master-key-file', server.masterKeyFile];
  const provider = ['--name', 'Acme ID', '--issuer', company.issuer, ...client, ...place];
  const created = await server.command(['provider', 'create', 'acme', ...provider, '--json']);
  const { id } = made.parse(JSON.parse(created));
  await server.command(['domain', 'add', 'acme', 'example.com']);
  await server.command(['domain', 'confirm', 'acme', 'example.com']);
  const document = `${server.base}/oauth/clients/latchkey.json`;
  // At an http address, the server knows its own document once someone has asked for a sign-in with it.
  const asked = new URLSearchParams({
    response_type: 'code',
    client_id: document,
    redirect_uri: 'http://127.0.0.1/callback',
    scope: 'mcp:tools:read',
    code_challenge: pkcePair().challenge,
    code_challenge_method: 'S256',
    resource: `${server.base}/mcp/acme/sales`,
  });
  await fetch(`${server.base}/oauth/consent?${asked.toString()}`);
  const allowed = ['--allow', 'yes', '--client', document];
  const named = ['--native-client', company.nativeClientId];
  await server.command(['provider', 'assertions', 'acme', id, ...allowed, ...named]);
  company.register(server.base, document);
  return id;
}

await suite(['keychain', 'browser'], 'a company whose provider vouches for its people', () => {
  let computer: CompanyComputer;
  let server: ServerProcess;
  let providerId: string;

  beforeAll(async () => {
    server = await serverProcess({ args: ['--outbound-host', '127.0.0.1'] });
    computer = await companyComputer(async (company) => {
      providerId = await setUp(server, company);
      return [server.base];
    });
  });
  afterAll(async () => {
    await computer[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  const url = (name: string) => `${server.base}/mcp/acme/${name}`;

  test('three endpoints in two assistants: three commands, two clicks, no consent page of the server', async () => {
    const runs = [
      await computer.withPage(computer.signIn, 'setup', url('sales'), '--yes'),
      await computer.latchkey('setup', url('support'), '--yes'),
      await computer.latchkey('setup', url('finance'), '--yes'),
    ];

    for (const { code, stdout, stderr } of runs) {
      expect({ code, stderr }).toMatchObject({ code: 0 });
      expect(stdout).toContain('signed in as dana@example.com');
      expect(stdout).toContain(`by the company sign-in of ${computer.company.issuer}`);
    }
    expect(computer.counts()).toEqual({ commands: 3, clicks: 2, pages: 0 });
    for (const file of assistantFiles)
      for (const name of endpoints) {
        const counted = await computer.through(file, name, async (proxy) => {
          await proxy.handshake();
          const sql = 'select count(*) as n from books';
          return proxy.request('tools/call', { name: 'query', arguments: { sql } });
        });
        expect(JSON.stringify(counted.result)).toMatch(/\d{3,}/);
      }
    expect(computer.company.exchanges).toHaveLength(3);
  });

  test('the address of the whole server connects what the company sign-in opens, without a page', async () => {
    const managed = join(computer.home, 'managed.json');
    const before = readFileSync(managed, 'utf8');
    const repaired = await computer.latchkey('setup', server.base, '--yes');
    const { identityProviders } = managedFile.parse(JSON.parse(before));
    const servers = [...endpoints, 'closed'].map(url);
    const exact = identityProviders.map((one) => Object.assign(one, { servers }));
    writeFileSync(managed, JSON.stringify({ identityProviders: exact }));
    await computer.latchkey('remove', 'finance');
    const added = await computer.latchkey('setup', `${server.base}/mcp/acme`, '--yes');
    const status = await computer.latchkey('status');
    writeFileSync(managed, before);

    expect({ code: repaired.code, stderr: repaired.stderr }).toMatchObject({ code: 0 });
    expect(repaired.stdout).toContain(`by the company sign-in of ${computer.company.issuer}`);
    for (const name of endpoints)
      expect(repaired.stdout).toMatch(new RegExp(`^${name}: \\d+ tool`, 'm'));
    expect(added.stdout).toContain(`added finance: ${url('finance')}`);
    expect({ code: added.code, stderr: added.stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('closed was not connected'),
    });
    expect(status.stdout).toContain('finance');
    expect(status.stdout).not.toContain('closed');
    expect(computer.counts()).toMatchObject({ clicks: 2, pages: 0 });
  });

  test('signing the computer out ends its access, until she has signed in at the provider again', async () => {
    const person = [email, '--organization', 'acme'];
    const listed = await server.command(['device', 'list', ...person, '--json']);
    const items = devices.parse(JSON.parse(listed));
    const signOut = ['device', 'sign-out', ...person, items[0]?.id ?? '', '--json'];
    const out = ended.parse(JSON.parse(await server.command(signOut)));
    const signedOutAt = seconds();
    // The provider says to the second when she signed in.
    await vi.waitUntil(() => seconds() > signedOutAt, patient);
    const before = computer.counts();
    const again = computer.withPage(() => computer.confirm(() => undefined), 'login', 'sales');
    const { code, stdout } = await again;
    const clicks = computer.counts().clicks - before.clicks;

    expect([items.map(({ system }) => system), out.ended]).toEqual([['Linux'], 3]);
    expect({ code, clicks }).toEqual({ code: 0, clicks: 1 });
    expect(stdout).toContain(`by the company sign-in of ${computer.company.issuer}`);
    const [file] = assistantFiles;
    const { error } = await computer.through(file, 'support', async (proxy) => proxy.handshake());
    expect(error).toBeUndefined();
  });

  test('a provider that does not say when she signed in: after she was signed out, she allows the computer once on a page of the server', async () => {
    const { company, page, click, opened, outcome } = computer;
    company.change((claims) => ({ ...claims, auth_time: undefined }));
    const person = [email, '--organization', 'acme'];
    const listed = await server.command(['device', 'list', ...person, '--json']);
    const [device] = devices.parse(JSON.parse(listed));
    await server.command(['device', 'sign-out', ...person, device?.id ?? '']);
    const { code, stdout, stderr } = await computer.withPage(
      async () => {
        await computer.confirm(() => undefined);
        await page.goto(await opened());
        await page.getByLabel('E-mail').fill(email);
        await page.getByLabel('Password', { exact: true }).fill(password);
        await page.getByRole('button', { name: 'Sign in', exact: true }).click();
        await click('Allow');
        return outcome();
      },
      'login',
      'finance',
    );
    const [file] = assistantFiles;
    const { error } = await computer.through(file, 'support', async (proxy) => proxy.handshake());

    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).toContain('the provider does not say when you signed in');
    expect(stdout).toContain('signed in as dana@example.com');
    expect(error).toBeUndefined();
    expect(computer.counts().pages).toBe(0);
  });

  test('once the organization no longer lets the provider vouch, the proxy says who refused, and opens no page', async () => {
    await server.command(['provider', 'assertions', 'acme', providerId, '--allow', 'no']);
    const [file] = assistantFiles;
    const { error } = await computer.through(file, 'sales', async (proxy) => proxy.handshake());
    const login = await computer.latchkey('login', 'sales');

    expect(error?.message).toContain(`${server.base} gives you no access to ${url('sales')}`);
    expect(login.stderr).toContain('hint: ask the administrators of your company for access');
    expect({ code: login.code, pages: computer.counts().pages }).toEqual({ code: 1, pages: 0 });
  });
});

await suite(['keychain', 'browser'], 'a server that names the provider of a company', () => {
  let computer: CompanyComputer;
  let server: ServerProcess;
  let providerId: string;

  beforeAll(async () => {
    server = await serverProcess({ args: ['--outbound-host', '127.0.0.1'] });
    computer = await companyComputer(async (company) => {
      providerId = await setUp(server, company);
      return undefined;
    });
  });
  afterAll(async () => {
    await computer[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  const url = (name: string) => `${server.base}/mcp/acme/${name}`;
  /** Signs in to the server itself, unless it knows the browser, and allows the proxy to act. */
  const allow = async () => {
    const { page, click, opened, outcome } = computer;
    await page.goto(await opened());
    if (new URL(page.url()).pathname === '/sign-in') {
      await page.getByLabel('E-mail').fill(email);
      await page.getByLabel('Password', { exact: true }).fill(password);
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    }
    await click('Allow');
    return outcome();
  };

  test('after one sign-in to a server, its provider opens the next one, and no page the one after that', async () => {
    const { company, withPage, latchkey, signIn, counts } = computer;
    const first = await withPage(allow, 'setup', url('sales'), '--yes');
    const second = await withPage(signIn, 'setup', url('support'), '--yes');
    const third = await latchkey('setup', url('finance'), '--yes');

    expect(first.stdout).toContain('signed in as dana@example.com');
    expect(first.stdout).not.toContain('company sign-in');
    for (const { code, stdout } of [second, third]) {
      expect(code).toBe(0);
      expect(stdout).toContain(`by the company sign-in of ${company.issuer}`);
    }
    expect(counts().pages).toBe(0);
    expect(company.exchanges).toHaveLength(2);
    const metadata = await fetch(`${server.base}/.well-known/oauth-authorization-server`);
    expect(await metadata.text()).not.toContain(company.issuer);
  });

  test('once the organization no longer lets the provider vouch, people sign in to the server itself again', async () => {
    await server.command(['provider', 'assertions', 'acme', providerId, '--allow', 'no']);
    const { stdout, stderr, code } = await computer.withPage(allow, 'login', 'support');
    const again = await computer.withPage(allow, 'login', 'support');

    expect({ code, stdout }).toMatchObject({ code: 0 });
    expect(stdout).toContain('signed in as dana@example.com');
    expect(stderr).toContain('support cannot use the company sign-in of');
    // The server named no provider this time.
    expect(again.stderr).not.toContain('company sign-in');
  });
});
