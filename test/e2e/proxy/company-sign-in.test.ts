import { afterAll, beforeAll, expect, test } from 'vitest';

import type { ConnectionView } from '#proxy/connections/accounts-service';
import { accountsClient } from '#support/accounts-client';
import { companyComputer, type CompanyComputer } from '#support/company-computer';
import { legacyMcp } from '#support/legacy-mcp';
import { managedFront, type ManagedFront } from '#support/managed-front';
import { assistantFiles } from '#support/person-computer';
import { suite } from '#support/suite';

const endpoints = ['sales', 'support', 'finance'];
const assertionShape = /eyJ[\w-]{10,}\.[\w-]+\.[\w-]+/;

await suite(['keychain', 'browser'], 'company sign-in on one computer', () => {
  let computer: CompanyComputer;
  let front: ManagedFront;
  let accepts = true;

  beforeAll(async () => {
    computer = await companyComputer(async (company) => {
      front = await managedFront(legacyMcp().handle, { provider: company, accepts: () => accepts });
      company.register(front.origin, front.clientId);
      return [front.origin];
    });
  });
  afterAll(async () => {
    await computer[Symbol.asyncDispose]();
    await front[Symbol.asyncDispose]();
  });

  const toolsThrough = async (file: string, name: string, more?: Record<string, string>) =>
    computer.through(
      file,
      name,
      async (proxy) => {
        await proxy.handshake();
        const { result } = await proxy.request('tools/list');
        return JSON.stringify(result);
      },
      more,
    );
  const kept = async (prefix: string) =>
    [...(await computer.session.contents()).keys()].filter((account) => account.startsWith(prefix));

  test('the first connection opens a page of the provider, and no other does', async () => {
    const { company } = computer;
    const first = await computer.withPage(computer.signIn, 'setup', front.url('sales'), '--yes');
    const rest = [
      await computer.latchkey('setup', front.url('support'), '--yes'),
      await computer.latchkey('setup', front.url('finance'), '--yes'),
    ];

    expect(first.shown).toContain('You are signed in as dana@example.com');
    expect(first.stdout).toContain(`by the company sign-in of ${company.issuer}`);
    for (const { code, stdout } of [first, ...rest]) {
      expect(code).toBe(0);
      expect(stdout).toContain('signed in as dana@example.com');
      expect(stdout).toMatch(/^\w+: \d+ tools$/m);
    }
    for (const file of assistantFiles)
      for (const name of endpoints) expect(await toolsThrough(file, name)).toContain('"echo"');
    expect(computer.counts().pages).toBe(0);
    expect(company.exchanges).toHaveLength(3);
    expect(front.admitted).toEqual(
      endpoints.map((name) => ({ login: 'dana', resource: front.url(name) })),
    );
  });

  test('the keychain has one entry of the provider, and no refresh token of a server', async () => {
    expect(await kept('identity provider')).toHaveLength(1);
    expect(await kept('access token')).toHaveLength(3);
    expect(await kept('refresh')).toEqual([]);
  });

  test('status and doctor name the provider', async () => {
    const { issuer } = computer.company;
    const { stdout } = await computer.latchkey('status', 'sales', '--json');
    const doctor = await computer.latchkey('doctor', 'sales');

    const [status] = JSON.parse(stdout).connections;
    expect(status).toMatchObject({ state: 'ready', provider: issuer, renewable: true });
    expect(doctor.stdout).toContain(`signed in at ${issuer} as dana@example.com`);
  });

  test('several proxies whose tokens the server no longer accepts need no page', async () => {
    front.revokeAll();
    const before = computer.company.exchanges.length;
    const all = assistantFiles.flatMap((file) => endpoints.map((name) => ({ file, name })));

    const lists = await Promise.all(all.map(async ({ file, name }) => toolsThrough(file, name)));

    for (const list of lists) expect(list).toContain('"echo"');
    expect(computer.counts().pages).toBe(0);
    // Both proxies of an endpoint share its token.
    expect(computer.company.exchanges.length - before).toBe(3);
  });

  test('a refusal of the provider is not answered with a page, and says who can help', async () => {
    const { company } = computer;
    company.refuse({ error: 'access_denied' });
    const { code, stdout, stderr } = await computer.latchkey('login', 'sales');
    company.refuse(undefined);

    const { pages } = computer.counts();
    expect({ code, stdout, pages }).toEqual({ code: 1, stdout: '', pages: 0 });
    expect(stderr).toContain(`${company.issuer} gives you no access to ${front.url('sales')}`);
    expect(stderr).toContain('hint: ask the administrators of your company for access');
  });

  test('a provider that requires a new sign-in gets one, although it knows the browser', async () => {
    const { company } = computer;
    company.refuse({ error: 'insufficient_user_authentication', max_age: 0 });
    const enter = async () => computer.confirm(() => company.refuse(undefined));
    const { code, stdout } = await computer.withPage(enter, 'login', 'sales');

    expect(code).toBe(0);
    expect(stdout).toContain('signed in as dana@example.com');
  });

  test('logout ends the shared sign-in; the next login opens a page, and signs in to the other connections', async () => {
    const out = await computer.latchkey('logout', 'sales');
    const left = await kept('identity provider');
    await computer.latchkey('logout', 'support');
    const [file] = assistantFiles;
    const call = await computer.through(file, 'sales', async (proxy) => {
      await proxy.handshake();
      return proxy.request('tools/call', { name: 'echo', arguments: { text: 'x' } });
    });
    const back = await computer.withPage(computer.signInAgain, 'login', 'sales');

    expect(out.stdout).toContain(`signed out of ${computer.company.issuer}, too`);
    expect(left).toEqual([]);
    expect(JSON.stringify(call)).toContain(`you are not signed in at ${computer.company.issuer}`);
    expect(back.stdout).toContain('signed in as dana@example.com');
    expect(back.stdout).toContain('also signed in to support\n');
  });

  test('several proxies that start without a sign-in open one page', async () => {
    for (const name of endpoints) await computer.latchkey('logout', name);
    const always = { LATCHKEY_SIGN_IN: 'always' };
    const lists = assistantFiles.flatMap((file) =>
      endpoints.map(async (name) => toolsThrough(file, name, always)),
    );
    await computer.signInAgain();

    for (const list of await Promise.all(lists)) expect(list).toContain('"echo"');
    expect(computer.counts().pages).toBe(0);
    expect(await kept('identity provider')).toHaveLength(1);
  });

  test('the accounts service shows the shared sign-in, ends it for all connections, and signs in to all of them again', async () => {
    const { issuer, clientId } = computer.company;
    await using accounts = accountsClient(computer.env);
    const shown = async () =>
      (await accounts.call<ConnectionView[]>('list')).map(({ state, company }) => ({
        state,
        issuer: company?.issuer,
        clientId: company?.clientId,
        signedIn: company?.signedIn,
        as: company?.signedInAs,
      }));
    const before = await shown();
    const out = await accounts.call('signOutCompany', 'support');
    const without = await shown();
    const left = await kept('access token');
    const signingIn = accounts.call('signInCompany', 'support');
    await computer.signInAgain();
    const back = await signingIn;
    const again = await accounts.call('signInCompany', 'sales');

    const shared = { issuer, clientId };
    const signedIn = { state: 'ready', ...shared, signedIn: true, as: 'dana@example.com' };
    const signedOut = { state: 'needs_sign_in', ...shared, signedIn: false, as: undefined };
    expect(before).toEqual(endpoints.map(() => signedIn));
    expect(out).toMatchObject({ issuer, connections: expect.arrayContaining(endpoints) });
    expect(without).toEqual(endpoints.map(() => signedOut));
    expect(left).toEqual([]);
    const all = { issuer, signedInAs: 'dana@example.com', unsupported: [], refused: [] };
    const connections = expect.arrayContaining(endpoints);
    expect(back).toEqual({ ...all, connections, steps: ['waiting'] });
    // The sign-in still counts, so no page was needed.
    expect(again).toEqual({ ...all, connections, steps: [] });
    expect(await shown()).toEqual(before);
    expect(computer.counts().pages).toBe(0);
  });

  test('a server that does not offer it is signed in to in its own way, with a sentence that says why', async () => {
    const { issuer } = computer.company;
    accepts = false;
    const { stderr } = await computer.latchkey('login', 'support');

    expect(stderr).toContain(
      `support cannot use the company sign-in of ${issuer}: ${front.origin} does not offer it`,
    );
    // The server has no sign-in page of its own.
    expect(stderr).toContain('announces no authorization endpoint');
  });

  test('removing the last connection ends the sign-in at the provider', async () => {
    accepts = true;
    await computer.latchkey('remove', 'sales');
    await computer.latchkey('remove', 'support');
    const before = await kept('identity provider');
    await computer.latchkey('remove', 'finance');

    expect(before).toHaveLength(1);
    expect(await kept('identity provider')).toEqual([]);
    expect(await kept('access token')).toEqual([]);
  });

  test('no output, log, command line or file contains an assertion, token or secret', () => {
    const text = computer.everything();

    expect(text).not.toMatch(assertionShape);
    expect(text).not.toContain(computer.company.clientSecret);
    expect(text).not.toMatch(/token-[0-9a-f]{24}/);
  });
});
