import { expect, test } from 'vitest';
import { registeredClients } from '#proxy/auth/client-registration';
import type { RedirectPage } from '#proxy/auth/redirect-listener';
import { accountOf, abortedSignIn, signIn } from '#proxy/auth/sign-in';
import type { Granted } from '#proxy/auth/token-vault';
import { memorySecretStore } from '#proxy/keychain/secret-store';
import { fakeClock } from '#support/fake-clock';
import { web, type Page } from '#support/web';

const url = 'https://mcp.example.com/mcp/acme/sales';
const issuer = 'https://as.example.com';
const redirectUri = 'http://127.0.0.1:4000/callback';
const token: Page = { json: { access_token: 'a1', token_type: 'Bearer', expires_in: 60 } };

const metadata = {
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  userinfo_endpoint: `${issuer}/userinfo`,
  code_challenge_methods_supported: ['S256'],
};

/** Signs in with client `c`; the browser returns with `back` besides the state that it was sent with. */
async function signingIn({
  back = { code: 'code_1', iss: issuer },
  announced = metadata,
  previousIssuer,
  save,
}: {
  back?: Record<string, string>;
  announced?: object;
  previousIssuer?: string;
  save?: () => Promise<never>;
} = {}) {
  const clock = fakeClock(1_000);
  const store = memorySecretStore();
  const { http, requests } = web({
    [url]: { status: 401 },
    'https://mcp.example.com/.well-known/oauth-protected-resource/mcp/acme/sales': {
      json: { resource: url, authorization_servers: [issuer] },
    },
    [`${issuer}/.well-known/oauth-authorization-server`]: { json: announced },
    [`${issuer}/token`]: token,
    [`${issuer}/userinfo`]: { json: { email: ' dana@example.com ' } },
  });
  const told: RedirectPage[] = [];
  const saved: Granted[] = [];
  const events: string[] = [];
  let closed = 0;
  const shown = Promise.withResolvers<URL>();
  const previous = previousIssuer && {
    accessToken: 'a0',
    obtainedAt: 0,
    issuer: previousIssuer,
    published: true,
  };
  const record = signIn(
    {
      url,
      credentials: { kind: 'authorization_code', clientId: 'c' },
      ...(previous && { previous }),
      timeoutMs: 1_000,
      signal: new AbortController().signal,
    },
    {
      http,
      clock,
      store,
      clients: registeredClients(store),
      readPrivateKey: () => Promise.reject(new Error('no key')),
      listen: () =>
        Promise.resolve({
          redirectUri,
          linkTo: (page: URL) => page,
          redirect: async () => {
            const state = (await shown.promise).searchParams.get('state') ?? '';
            return {
              query: new URLSearchParams({ ...back, state }),
              answer: async (page: RedirectPage) => void told.push(page),
            };
          },
          close: async () => void (closed += 1),
        }),
      show: async (page, _redirectUri, _isOurs, over) => {
        over.addEventListener('abort', () => events.push('over'));
        shown.resolve(page.url);
        return new Promise(() => undefined);
      },
      save:
        save ??
        (async (granted) => {
          events.push('saved');
          saved.push(granted);
          return granted;
        }),
    },
  );
  const outcome = await record.then(
    (value) => ({ value, error: undefined }),
    (error: unknown) => ({ value: undefined, error }),
  );
  return { ...outcome, told, saved, events, requests, closed: () => closed };
}

test('sign-in: the page shows success, with the account, only after the token was stored', async () => {
  const { value, told, saved, closed } = await signingIn();

  expect(value).toMatchObject({ accessToken: 'a1', issuer, signedInAs: 'dana@example.com' });
  expect(saved).toHaveLength(1);
  expect(told.map(({ status, title }) => [status, title])).toEqual([
    [200, 'You are signed in as dana@example.com'],
  ]);
  expect(closed()).toBe(1);
});

test('sign-in: after the redirect, the person needs to do nothing more', async () => {
  const { events } = await signingIn();

  expect(events).toEqual(['over', 'saved']);
});

test('sign-in: a token that cannot be stored is not announced as a sign-in', async () => {
  const { error, told, closed } = await signingIn({
    save: () => Promise.reject(new Error('keychain locked: hunter2')),
  });

  expect(error).toBeInstanceOf(Error);
  expect(told.map(({ status, title }) => [status, title])).toEqual([
    [400, 'You are not signed in'],
  ]);
  expect(told[0]?.text).toContain('could not be stored on this computer');
  expect(told[0]?.text).not.toContain('hunter2');
  expect(closed()).toBe(1);
});

test('sign-in: a redirect of another issuer fetches no token', async () => {
  const { error, requests, told } = await signingIn({
    back: { code: 'code_1', iss: 'https://evil.example' },
  });

  expect(error).toMatchObject({ name: 'OAuthError' });
  expect(requests.some((request) => request.url.href === `${issuer}/token`)).toBe(false);
  expect(told[0]?.title).toBe('You are not signed in');
});

test('sign-in: a denial is reported as such, and nothing is stored', async () => {
  const { error, told, saved } = await signingIn({ back: { error: 'access_denied', iss: issuer } });

  expect(error).toMatchObject({ name: 'OAuthError', code: 'denied' });
  expect(told[0]?.text).toMatch(/answered: access_denied\.$/);
  expect(saved).toEqual([]);
});

test('sign-in: a server without PKCE with S256 is refused before a page is shown', async () => {
  const { error, told, requests } = await signingIn({
    announced: { ...metadata, code_challenge_methods_supported: ['plain'] },
  });

  expect(error).toMatchObject({ code: 'metadata', message: expect.stringContaining(issuer) });
  expect(told).toEqual([]);
  expect(requests.some((request) => request.url.pathname === '/token')).toBe(false);
});

test('sign-in: a configured client is used only at the issuer of its first use', async () => {
  const { error } = await signingIn({ previousIssuer: 'https://old.example.com' });

  expect(error).toMatchObject({
    code: 'issuer',
    message: 'the client ID belongs to https://old.example.com, not to https://as.example.com',
  });
});

test.each([
  ['an address', { email: 'dana@example.com' }, 'dana@example.com'],
  ['a user name, without an address', { email: ' ', preferred_username: 'dana' }, 'dana'],
  ['neither', { sub: 'u1' }, undefined],
  ['an address that is no text', { email: 7 }, undefined],
])('account name: userinfo with %s', async (_, json, name) => {
  const { http } = web({ [`${issuer}/userinfo`]: { json } });
  const discovery = { userinfoEndpoint: `${issuer}/userinfo`, within: 'public' } as const;

  expect(await accountOf(discovery, 'a1', http)).toEqual(name === undefined ? {} : { name });
});

test('sign-in: when it is aborted, it ends even if the server never answers', async () => {
  const cancelling = new AbortController();
  const ended = abortedSignIn(cancelling.signal, new Promise(() => undefined));
  cancelling.abort();

  await expect(ended).rejects.toMatchObject({ name: 'LoopbackError', code: 'aborted' });
});

test('account: it comes with the provider that the server names for people of a company', async () => {
  const servers = ['https://mcp.example.com/mcp/acme'];
  const named = { issuer: 'https://id.acme.example', client_id: 'latchkey', servers };
  const { http } = web({ [`${issuer}/userinfo`]: { json: { identity_provider: named } } });
  const discovery = { userinfoEndpoint: `${issuer}/userinfo`, within: 'public' } as const;

  expect(await accountOf(discovery, 'a1', http)).toEqual({
    provider: { provider: { issuer: 'https://id.acme.example', clientId: 'latchkey' }, servers },
  });
});
