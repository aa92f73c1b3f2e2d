import { createServer } from 'node:http';
import { expect, test, vi } from 'vitest';
import { desktop } from '#support/desktop';
import { keychainSession } from '#support/keychain-session';
import { legacyMcp } from '#support/legacy-mcp';
import { listen } from '#support/loopback';
import { startProgram } from '#support/processes';
import { launcher } from '#support/proxy-process';
import { signInFront } from '#support/sign-in-front';
import { suite } from '#support/suite';
import { patient } from '#support/patient';

test('login: it registers, requests the exact resource with PKCE, and the proxy uses its token', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();

  const login = await machine.run('login', server.url);
  await using proxy = machine.proxy(server);
  const answer = await proxy.handshake();

  expect(login).toMatchObject({ code: 0 });
  expect(login.stdout).toContain(`signed in to ${server.url}`);
  expect(answer.result).toMatchObject({ serverInfo: { name: 'legacy' } });
  expect(server.registrations).toMatchObject([
    { application_type: 'native', token_endpoint_auth_method: 'none' },
  ]);
  const [asked] = server.asked;
  expect(asked?.get('resource')).toBe(server.url);
  expect(asked?.get('scope')).toBe('mcp:tools:read');
  expect(asked?.get('redirect_uri')).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback$/);
  const [redeemed] = server.tokenRequests;
  expect(redeemed?.get('resource')).toBe(server.url);
  expect(redeemed?.get('code_verifier')).toMatch(/^[\w-]{43,128}$/);
  expect(server.tokenRequests).toHaveLength(1);
  expect(await machine.pages()).toMatch(/^200 .*You are signed in/);
});

test('login: a second one on the same computer registers no second client', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();

  await machine.run('login', server.url);
  const second = await machine.run('login', server.url);

  expect(second.code).toBe(0);
  expect(server.registrations).toHaveLength(1);
});

test('status and logout: status reports the sign-in, logout revokes and deletes it', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  const before = await machine.run('status', server.url);
  await machine.run('login', server.url);

  const during = await machine.run('status', server.url, '--json');
  const logout = await machine.run('logout', server.url);
  const after = await machine.run('status', server.url, '--json');

  expect(before.stdout).toContain('signed out');
  expect(before.stdout).toContain(`hint: latchkey login ${server.url}`);
  expect(JSON.parse(during.stdout)).toMatchObject({
    connections: [{ state: 'ready', as: 'person', issuer: server.origin, renewable: true }],
  });
  expect(logout).toMatchObject({ code: 0 });
  expect(server.revocations.map((form) => form.get('token_type_hint'))).toEqual([
    'refresh_token',
    'access_token',
  ]);
  expect(JSON.parse(after.stdout)).toMatchObject({ connections: [{ state: 'signed_out' }] });
});

test('logout: it deletes the tokens even when the server cannot be reached, and says so', async () => {
  await using machine = await desktop();
  const server = await signInFront(legacyMcp().handle);
  const { url } = server;
  await machine.run('login', url);
  await server[Symbol.asyncDispose]();

  const logout = await machine.run('logout', url);
  const status = await machine.run('status', url);

  expect(logout.code).toBe(1);
  expect(logout.stderr).toContain('the server did not revoke the access');
  expect(status.stdout).toContain('signed out');
});

test('login: without a browser the URL is printed and the redirect is pasted', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop({ BROWSER: '', SSH_CONNECTION: '10.0.0.1 1 10.0.0.2 22' });
  await using login = startProgram(process.execPath, {
    args: [launcher, 'login', server.url],
    env: { ...machine.env, DISPLAY: undefined, WAYLAND_DISPLAY: undefined },
  });
  const [address = ''] = await login.line(/^http:\S+\/oauth\/consent\S+$/m, { stream: 'stderr' });
  const response = await fetch(address, { redirect: 'manual' });
  const redirect = response.headers.get('location') ?? '';

  login.write(`${redirect.replace(/state=[^&]+/, 'state=other')}\n${redirect}\n`);

  await login.line(/signed in to/);
  expect(login.stderr).toContain('that is not the address that this sign-in ends at');
  expect(await login.exited).toMatchObject({ code: 0 });
});

test.each<[string, Parameters<typeof signInFront>[1] & object, RegExp]>([
  ['another issuer’s redirect', { redirect: { iss: 'https://evil.example' } }, /evil\.example/],
  ['a redirect without iss where it was announced', { redirect: { iss: undefined } }, /iss/],
  ['a refusal', { redirect: { code: undefined, error: 'access_denied' } }, /access_denied/],
  ['a redirect without a code', { redirect: { code: undefined } }, /no code/],
  ['a server without S256', { metadata: { code_challenge_methods_supported: ['plain'] } }, /S256/],
  [
    'a server of another name',
    { metadata: { issuer: 'https://evil.example' } },
    /calls itself "https:\/\/evil/,
  ],
  [
    'a consent page that is a script',
    { metadata: { authorization_endpoint: 'javascript:alert(1)' } },
    /not an https URL/,
  ],
  [
    'a consent page that is a file',
    { metadata: { authorization_endpoint: 'file:///etc/passwd' } },
    /not an https URL/,
  ],
  ['metadata of a megabyte', { metadata: { x: 'x'.repeat(1_000_000) } }, /too large/],
  ['a server that registers nobody', { registration: false }, /a client ID is required/],
])('login: %s ends it before a code is sent anywhere', async (_, options, words) => {
  await using server = await signInFront(legacyMcp().handle, options);
  await using machine = await desktop();

  const { code, stderr } = await machine.run('login', server.url);

  expect(code).toBe(1);
  expect(stderr).toMatch(words);
  expect(server.tokenRequests).toHaveLength(0);
});

test('login: a token endpoint that redirects is not followed, and the page reports the failure', async () => {
  await using server = await signInFront(legacyMcp().handle);
  server.options.tokenRedirect = `${server.origin}/elsewhere`;
  await using machine = await desktop();

  const { code, stderr } = await machine.run('login', server.url);

  expect(code).toBe(1);
  expect(stderr).toContain('answered 307');
  expect(server.lines().filter((line) => line.includes('elsewhere'))).toEqual([]);
  expect(await machine.pages()).toMatch(/^400 .*You are not signed in/);
});

test('login: a configured port in use is retried, then named in the error', async () => {
  await using server = await signInFront(legacyMcp().handle, { registration: false });
  const holder = createServer();
  const redirectPort = await listen(holder);
  const LATCHKEY_OAUTH = JSON.stringify({ clientId: 'client_1', redirectPort });
  await using machine = await desktop({ LATCHKEY_OAUTH });

  const waiting = machine.run('login', server.url);
  const taken = await waiting;
  holder.close();
  const free = await machine.run('login', server.url);

  expect(taken.code).toBe(1);
  expect(taken.stderr).toContain(String(redirectPort));
  expect(free.code).toBe(0);
  expect(server.asked[0]?.get('redirect_uri')).toContain(`:${redirectPort}/`);
});

test('login: a server without metadata is asked at the default endpoints', async () => {
  await using server = await signInFront(legacyMcp().handle, { published: false });
  await using machine = await desktop({ LATCHKEY_OAUTH: '{"clientId":"client_1"}' });

  const login = await machine.run('login', server.url);
  const logout = await machine.run('logout', server.url);

  expect(login.code).toBe(0);
  expect(server.asked[0]?.get('client_id')).toBe('client_1');
  expect(logout.code).toBe(0);
  expect(server.revocations).toHaveLength(2);
});

test('refresh token: an expired access token is renewed with it, and it rotates', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  await machine.run('login', server.url);
  await using proxy = machine.proxy(server);
  await proxy.handshake();

  server.expireAll();
  const first = await proxy.request('tools/list');
  server.expireAll();
  const second = await proxy.request('tools/list');

  expect([first, second].every(({ result }) => result?.['tools'])).toBe(true);
  const refreshes = server.tokenRequests.slice(1);
  expect(refreshes.map((form) => form.get('grant_type'))).toEqual([
    'refresh_token',
    'refresh_token',
  ]);
  expect(new Set(refreshes.map((form) => form.get('refresh_token'))).size).toBe(2);
});

test('ended sign-in: the error names the remedy, and a login meanwhile is enough', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  await machine.run('login', server.url);
  await using proxy = machine.proxy(server);
  await proxy.handshake();
  server.expireAll();
  server.endSignIns();

  const echo = { name: 'echo', arguments: { text: 'hi' } };
  const { error } = await proxy.request('tools/call', echo);
  const again = await proxy.request('tools/call', echo);
  const during = await proxy.request('tools/list');
  await machine.run('login', server.url);
  const after = await proxy.request('tools/list');

  expect(JSON.stringify(during.result)).toContain('"sign_in"');
  expect(JSON.stringify(after.result)).not.toContain('"sign_in"');
  expect(error?.message).toContain(`latchkey login ${server.url}`);
  expect(again.error?.message).toContain('latchkey login');
  // The dead refresh token was sent once.
  expect(
    server.tokenRequests.filter((form) => form.get('grant_type') === 'refresh_token'),
  ).toHaveLength(1);
  expect(after.result?.['tools']).toBeTruthy();
  expect(server.asked).toHaveLength(2);
});

test('sign-in auto: the browser opens where no one ever signed in, and calls wait for it', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  await using proxy = machine.proxy(server);

  const started = await proxy.handshake();
  const call = { name: 'echo', arguments: { text: 'hi' } };
  const { result } = await proxy.request('tools/call', call);

  expect(started.result).toMatchObject({ capabilities: { tools: { listChanged: true } } });
  expect(result).toMatchObject({ content: [{ text: 'hi' }] });
  expect(server.asked).toHaveLength(1);
});

test('sign-in auto: the browser opens once a day for all processes', async () => {
  await using server = await signInFront(legacyMcp().handle, {
    redirect: { code: undefined, error: 'access_denied' },
  });
  await using machine = await desktop();
  const proxies = Array.from({ length: 4 }, () => machine.proxy(server));

  const answers = await Promise.all(
    proxies.map(async (proxy) => {
      await proxy.handshake();
      return proxy.request('tools/call', { name: 'echo', arguments: {} });
    }),
  );
  await Promise.all(proxies.map(async (proxy) => proxy[Symbol.asyncDispose]()));

  expect(server.asked).toHaveLength(1);
  expect(answers.every(({ error }) => error?.message.includes('latchkey login'))).toBe(true);
});

test('sign-in: the end of stdin ends the proxy even while a sign-in is open', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop({ BROWSER: '/bin/true' });
  await using proxy = machine.proxy(server, '--sign-in', 'always');
  proxy.send({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
  await vi.waitUntil(() => server.lines().includes('POST /register'), patient);
  proxy.hangUp();

  expect(await proxy.ended).toBe(0);
});

test('client id: it is not sent to another issuer until the user confirms with login', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using other = await signInFront(legacyMcp().handle);
  await using machine = await desktop({ LATCHKEY_OAUTH: '{"clientId":"client_1"}' });
  await machine.run('login', server.url);
  server.expireAll();
  server.options.authorizationServer = other.origin;
  await using proxy = machine.proxy(server, '--sign-in', 'always');

  const { error } = await proxy.handshake();
  const askedBefore = other.asked.length;
  const login = await machine.run('login', server.url);

  expect(error?.message).toContain(`belongs to ${server.origin}, not to ${other.origin}`);
  expect(error?.message).toContain('latchkey login');
  expect(askedBefore).toBe(0);
  expect(login.code).toBe(0);
  expect(other.asked).toHaveLength(1);
});

test('sign-in never: no browser opens', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  await using proxy = machine.proxy(server, '--sign-in', 'never');

  await proxy.handshake();
  const { error } = await proxy.request('tools/call', { name: 'echo', arguments: {} });

  expect(error).toMatchObject({ data: { remedy: `latchkey login ${server.url}` } });
  expect(server.asked).toHaveLength(0);
});

test('missing scope: it is requested together with the granted ones, by login too', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  await machine.run('login', server.url);
  await using always = machine.proxy(server, '--sign-in', 'always');
  await always.handshake();
  server.options.neededScope = 'mcp:tools:execute';

  const stepped = await always.request('tools/list');
  server.options.neededScope = 'mcp:server:manage';
  await using auto = machine.proxy(server);
  const { error } = await auto.request('initialize', {});
  await machine.run('login', server.url);
  const after = await auto.request('tools/list');

  expect(stepped.result?.['tools']).toBeTruthy();
  expect(server.asked[1]?.get('scope')?.split(' ').sort()).toEqual([
    'mcp:tools:execute',
    'mcp:tools:read',
  ]);
  expect(error?.message).toContain('latchkey login');
  expect(server.asked.at(-1)?.get('scope')).toContain('mcp:server:manage');
  expect(after.error?.message ?? '').not.toContain('latchkey login');
});

test('missing scope: a server that never accepts the token opens the browser only once more', async () => {
  await using server = await signInFront(legacyMcp().handle);
  await using machine = await desktop();
  await machine.run('login', server.url);
  await using proxy = machine.proxy(server, '--sign-in', 'always');
  // No scope has a space in it, so no token ever has this one.
  server.options.neededScope = 'a b';

  for (let attempt = 0; attempt < 4; attempt += 1)
    expect((await proxy.request('tools/list')).error).toMatchObject({ data: { status: 403 } });

  expect(server.asked).toHaveLength(2);
});

await suite('keychain', 'refresh token in the keychain', () => {
  test('twenty processes whose token expires at once refresh it once and continue', async () => {
    await using keyring = await keychainSession();
    await using server = await signInFront(legacyMcp().handle, { expiresInSeconds: 1 });
    await using machine = await desktop({ ...keyring.env, LATCHKEY_SECRET_STORE: 'os' });
    await machine.run('login', server.url);
    await vi.waitUntil(
      async () => (await machine.run('status', server.url)).stdout.includes('token expired'),
      patient,
    );
    server.options.expiresInSeconds = 3600;

    const proxies = Array.from({ length: 20 }, () => machine.proxy(server));
    const starts = await Promise.all(proxies.map(async (proxy) => proxy.handshake()));
    const afterStart = server.tokenRequests.length;
    server.expireAll();
    const answers = await Promise.all(proxies.map(async (proxy) => proxy.request('tools/list')));
    await Promise.all(proxies.map(async (proxy) => proxy[Symbol.asyncDispose]()));

    expect(starts.filter(({ result }) => result?.['serverInfo'])).toHaveLength(20);
    expect(answers.filter(({ result }) => result?.['tools'])).toHaveLength(20);
    expect(afterStart).toBe(2);
    expect(server.tokenRequests.map((form) => form.get('grant_type'))).toEqual([
      'authorization_code',
      'refresh_token',
      'refresh_token',
    ]);
  });
});
