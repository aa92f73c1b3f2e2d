import { afterAll, beforeAll, expect, test } from 'vitest';

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
  const accounts = async (prefix: string) =>
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
    expect(await accounts('identity provider')).toHaveLength(1);
    expect(await accounts('access token')).toHaveLength(3);
    expect(await accounts('refresh')).toEqual([]);
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
    const left = await accounts('identity provider');
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
    expect(await accounts('identity provider')).toHaveLength(1);
  });

  test('a server that does not offer it is signed in to in its own way, with a sentence that says why', async () => {
    const { issuer } = computer.company;
    accepts = false;
    const { stderr } = await computer.latchkey('login', 'support');

    expect(stderr).toContain(
      `support cannot use the company sign-in of ${issuer}: ${front.origin} does not offer it`,
    );
    // It has no page of its own.
    expect(stderr).toContain('announces no authorization endpoint');
  });

  test('removing the last connection ends the sign-in at the provider', async () => {
    accepts = true;
    await computer.latchkey('remove', 'sales');
    await computer.latchkey('remove', 'support');
    const before = await accounts('identity provider');
    await computer.latchkey('remove', 'finance');

    expect(before).toHaveLength(1);
    expect(await accounts('identity provider')).toEqual([]);
    expect(await accounts('access token')).toEqual([]);
  });

  test('no output, log, command line or file contains an assertion, token or secret', () => {
    const text = computer.everything();

    expect(text).not.toMatch(assertionShape);
    expect(text).not.toContain(computer.company.clientSecret);
    expect(text).not.toMatch(/token-[0-9a-f]{24}/);
  });
});
