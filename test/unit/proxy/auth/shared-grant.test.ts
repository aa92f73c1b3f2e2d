import { expect, test } from 'vitest';
import { accountStatus } from '#proxy/auth/account-status';
import { registeredClients } from '#proxy/auth/client-registration';
import { personGrant } from '#proxy/auth/grants';
import type { RefreshLock } from '#proxy/auth/refresh-lock';
import { signInAccount } from '#proxy/auth/sign-in';
import type { SignInMarks } from '#proxy/auth/sign-in-marks';
import { listVault } from '#proxy/auth/server-list';
import { signOut } from '#proxy/auth/sign-out';
import { tokenVault } from '#proxy/auth/token-vault';
import { memorySecretStore } from '#proxy/keychain/secret-store';
import { fakeClock } from '#support/fake-clock';
import { web, type Page, type SeenForm } from '#support/web';

const issuer = 'https://latchkey.example.com';
const list = `${issuer}/api/my/servers`;
const names = ['sales', 'wiki'] as const;
const urlOf = (name: string) => `${issuer}/mcp/acme/${name}`;
const wellKnown = `${issuer}/.well-known/oauth-protected-resource/mcp/acme`;

/** A lock with one holder for each account at a time; `held` records the account of each holder. */
function recordedLock() {
  const held: string[] = [];
  const waiting = new Map<string, Promise<unknown>>();
  const lock: RefreshLock = {
    async hold(account, work) {
      const before = waiting.get(account) ?? Promise.resolve();
      const mine = before.then(async () => {
        held.push(account);
        return work();
      });
      waiting.set(
        account,
        mine.catch(() => undefined),
      );
      return mine;
    },
  };
  return { lock, held };
}

/** A person who allows something on each page immediately. */
const onPage = {
  show: async ({ url }: { url: URL }) =>
    new URLSearchParams({ code: 'code_1', state: url.searchParams.get('state') ?? '' }),
  signal: new AbortController().signal,
};

/** The ports of a sign-in that depend on this computer. */
function browser() {
  const redirectUri = 'http://127.0.0.1:4000/callback';
  const nothing = () => Promise.resolve(undefined);
  const no = () => Promise.resolve(false);
  const marks: SignInMarks = {
    signedInBefore: () => true,
    rememberSignedIn: nothing,
    forgetListed: nothing,
    claimToday: no,
    claimNotice: no,
    wantScopes: nothing,
    wantedScopes: () => Promise.resolve([]),
    noteMissingAccount: nothing,
    missingAccount: nothing,
  };
  return {
    marks,
    signInLock: recordedLock().lock,
    forgetCached: nothing,
    learnProvider: nothing,
    sharedServers: () => Promise.resolve([]),
    device: nothing,
    readAssertion: () => Promise.reject(new Error('no assertion')),
    listen: () =>
      Promise.resolve({
        redirectUri,
        linkTo: (page: URL) => page,
        redirect: () => new Promise<never>(() => undefined),
        close: () => Promise.resolve(),
      }),
  };
}

/** Two connections that share the sign-in of a list, with expired access tokens, and refresh token `r1` of client `c`. */
async function shared(answer: (request: SeenForm) => Page) {
  const clock = fakeClock(1_000);
  const store = memorySecretStore();
  const shareable = await listVault(store, list);
  const signedIn = { obtainedAt: 0, expiresAt: 1, issuer, published: true };
  const refresh = { refreshToken: 'r1', clientId: 'c' };
  await shareable.save({ ...signedIn, accessToken: 'l1', refresh });
  const { http, requests } = web({
    [`${issuer}/.well-known/oauth-authorization-server`]: {
      json: {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        code_challenge_methods_supported: ['S256'],
        registration_endpoint: `${issuer}/register`,
        token_endpoint: `${issuer}/token`,
        revocation_endpoint: `${issuer}/revoke`,
      },
    },
    ...Object.fromEntries(
      names.flatMap((name): [string, Page][] => [
        [urlOf(name), { status: 401 }],
        [
          `${wellKnown}/${name}`,
          { json: { resource: urlOf(name), authorization_servers: [issuer] } },
        ],
      ]),
    ),
    [list]: { status: 401 },
    [`${issuer}/.well-known/oauth-protected-resource/api/my/servers`]: {
      json: { resource: list, authorization_servers: [issuer] },
    },
    [`${issuer}/register`]: { json: { client_id: 'c' } },
    [`${issuer}/token`]: answer,
    [`${issuer}/revoke`]: { json: {} },
  });
  const { lock, held } = recordedLock();
  const credentials = { kind: 'authorization_code' as const };
  const open = async (name: string) => {
    const vault = tokenVault(store, `access token ${name}`);
    await vault.save({
      ...signedIn,
      accessToken: `a-${name}`,
      renewedBy: list,
      signedInAs: 'dana',
    });
    const ports = {
      http,
      clock,
      store,
      vault,
      lock,
      clients: registeredClients(store),
      readPrivateKey: () => Promise.reject(new Error('no key')),
      provider: () => Promise.resolve(undefined),
    };
    const url = urlOf(name);
    const connection = { name, url, source: 'test', credentials };
    return {
      vault,
      renew: async () => {
        const previous = await vault.access();
        const known = { ...(previous && { previous }), wider: false };
        return vault.save(await personGrant({ url, credentials }, known, ports));
      },
      status: async () => (await accountStatus(connection, ports, clock.now())).state,
      signOut: async () => signOut(connection, ports),
      /** The person signs in on the page of the list. */
      signIn: async () => signInAccount({ ...ports, ...browser(), connection }, onPage),
    };
  };
  const [sales, wiki] = [await open('sales'), await open('wiki')];
  const sent = (path: string) =>
    requests.filter(({ url }) => url.href === `${issuer}/${path}`).map(({ form }) => form);
  return { shareable, sales, wiki, sent, held, clock };
}

/** A server that rotates: it refuses every refresh token but the latest. */
function rotating() {
  let latest = 1;
  return ({ form }: SeenForm): Page => {
    if (form.get('refresh_token') !== `r${latest}`)
      return { status: 400, json: { error: 'invalid_grant' } };
    latest += 1;
    const access_token = `for ${form.get('resource') ?? ''}`.replaceAll(' ', '-');
    const tokens = { access_token, refresh_token: `r${latest}`, token_type: 'Bearer' };
    return { json: { ...tokens, expires_in: 60, scope: 'read' } };
  };
}

const refused =
  (error: string, error_description = 'no') =>
  (): Page => ({
    status: 400,
    json: { error, error_description },
  });

test('shared sign-in: each connection gets a token for its own server, and the refresh token is stored once', async () => {
  const { sales, wiki, shareable, sent } = await shared(rotating());
  const first = await sales.renew();
  const second = await wiki.renew().catch(String);

  expect(first).toMatchObject({
    accessToken: `for-${urlOf('sales')}`,
    renewedBy: list,
    signedInAs: 'dana',
  });
  expect(second).toMatchObject({ accessToken: `for-${urlOf('wiki')}` });
  expect(await shareable.refresh(issuer)).toEqual({ refreshToken: 'r3', clientId: 'c' });
  expect([await sales.vault.refresh(issuer), await wiki.vault.refresh(issuer)]).toEqual([
    undefined,
    undefined,
  ]);
  expect(sent('token').map((form) => form.get('refresh_token'))).toEqual(['r1', 'r2']);
});

test('shared sign-in: connections that renew at the same moment take turns, and no refresh token is used twice', async () => {
  const { sales, wiki, sent, shareable, held } = await shared(rotating());
  await Promise.all([sales.renew(), wiki.renew(), sales.renew(), wiki.renew()]);
  const used = sent('token').map((form) => form.get('refresh_token'));

  expect(new Set(used).size).toBe(used.length);
  expect(new Set(held)).toEqual(new Set([shareable.account]));
  expect(await shareable.refresh(issuer)).toMatchObject({ refreshToken: 'r5' });
});

test('shared sign-in: access that ended at one server signs out that connection alone', async () => {
  const { sales, wiki, shareable } = await shared((request) =>
    request.form.get('resource') === urlOf('sales')
      ? refused('invalid_target')()
      : rotating()(request),
  );

  await expect(sales.renew()).rejects.toMatchObject({
    code: 'signed_out',
    message: `${issuer} ended the access to ${urlOf('sales')}`,
  });
  expect([await sales.status(), await wiki.status()]).toEqual(['signed_out', 'ready']);
  expect(await shareable.refresh(issuer)).toMatchObject({ refreshToken: 'r1' });
  expect((await wiki.renew()).accessToken).toBe(`for-${urlOf('wiki')}`);
});

test('shared sign-in: a server that a setting suspends keeps the sign-in', async () => {
  const words = 'suspended: an administrator disabled this MCP server';
  const { sales, shareable } = await shared(refused('invalid_target', words));

  await expect(sales.renew()).rejects.toMatchObject({ code: 'suspended' });
  expect(await sales.status()).toBe('ready');
  expect(await shareable.refresh(issuer)).toMatchObject({ refreshToken: 'r1' });
});

test('shared sign-in: when the server ends it, all its connections are signed out', async () => {
  const { sales, wiki, shareable } = await shared(refused('invalid_grant'));

  await expect(sales.renew()).rejects.toMatchObject({ code: 'signed_out' });
  expect([await sales.status(), await wiki.status()]).toEqual(['signed_out', 'signed_out']);
  expect(await shareable.refresh(issuer)).toBeUndefined();
});

test('shared sign-in: a process that does not use our lock and has just renewed it is noticed', async () => {
  const server = rotating();
  const { sales, shareable } = await shared((request) => {
    if (request.form.get('refresh_token') !== 'r0') return server(request);
    void shareable.rotate(issuer, { refreshToken: 'r1', clientId: 'c' });
    return refused('invalid_grant')();
  });
  await shareable.rotate(issuer, { refreshToken: 'r0', clientId: 'c' });

  expect((await sales.renew()).accessToken).toBe(`for-${urlOf('sales')}`);
});

test('shared sign-in: signing out of one connection revokes a token of that server, and not the refresh token', async () => {
  const { sales, wiki, shareable, sent } = await shared(rotating());
  const signedOut = await sales.signOut();
  const revoked = sent('revoke').map((form) => [form.get('token'), form.get('token_type_hint')]);

  expect(signedOut).toEqual({ wasSignedIn: true });
  expect(revoked).toEqual([[`for-${urlOf('sales')}`, 'access_token']]);
  expect(await sales.vault.access()).toBeUndefined();
  expect(await shareable.refresh(issuer)).toMatchObject({ refreshToken: 'r2' });
  expect(await wiki.status()).toBe('ready');
});

test('shared sign-in: a server that the person does not choose at the next sign-in is not signed in to, and says so', async () => {
  const code = { access_token: 'l2', refresh_token: 'r9', token_type: 'Bearer' };
  const { sales, wiki, shareable } = await shared(({ form }) => {
    if (form.get('grant_type') === 'authorization_code') return { json: code };
    const isOver = form.get('refresh_token') !== 'r9';
    if (isOver) return refused('invalid_grant')();
    return form.get('resource') === urlOf('sales') ? refused('invalid_target')() : { json: code };
  });

  await expect(sales.signIn()).rejects.toMatchObject({
    code: 'not_chosen',
    message: 'you did not choose sales on the page, so you are not signed in to it',
  });
  expect([await sales.status(), await wiki.status()]).toEqual(['signed_out', 'ready']);
  expect(await shareable.refresh(issuer)).toMatchObject({ refreshToken: 'r9' });
});

test('shared sign-in: a sign-in of its own replaces it, and the other way round', async () => {
  const { sales } = await shared(rotating());
  const own = { accessToken: 'own', obtainedAt: 0, issuer, published: true };
  await sales.vault.save({ ...own, refresh: { refreshToken: 'mine', clientId: 'c' } });
  const alone = await sales.vault.access();
  await sales.vault.save({ ...own, accessToken: 'again', renewedBy: list });

  expect(alone).not.toHaveProperty('renewedBy');
  expect(await sales.vault.refresh(issuer)).toBeUndefined();
});

test('signing out: of a sign-in that has ended, nothing is revoked, and that is no failure', async () => {
  const { sales, shareable, sent } = await shared(refused('invalid_grant'));
  await sales.renew().catch(() => undefined);
  const signedOut = await sales.signOut();

  expect(await shareable.refresh(issuer)).toBeUndefined();
  expect(signedOut).toEqual({ wasSignedIn: false });
  expect(sent('revoke')).toEqual([]);
  expect(await sales.vault.access()).toBeUndefined();
});
