import { expect, test } from 'vitest';
import { personGrant } from '#proxy/auth/grants';
import { registeredClients } from '#proxy/auth/client-registration';
import { processRefreshLock } from '#proxy/auth/refresh-lock';
import { memorySecretStore } from '#proxy/keychain/secret-store';
import { tokenVault } from '#proxy/auth/token-vault';
import { fakeClock } from '#support/fake-clock';
import { web, type Page, type SeenForm } from '#support/web';

const url = 'https://mcp.example.com/mcp/acme/sales';
const issuer = 'https://as.example.com';
const token = `${issuer}/token`;

/** Somebody who signed in a while ago, with refresh token `r1` of client `c`. */
async function signedIn(answer: (request: SeenForm) => Page, trusted = issuer) {
  const clock = fakeClock(1_000);
  const store = memorySecretStore();
  const vault = tokenVault(store, 'access token x');
  const previous = { accessToken: 'a1', obtainedAt: 0, issuer, published: true, scope: 'read' };
  await vault.save({ ...previous, refresh: { refreshToken: 'r1', clientId: 'c' } });
  const { http, requests } = web({
    [url]: { status: 401 },
    'https://mcp.example.com/.well-known/oauth-protected-resource/mcp/acme/sales': {
      json: { resource: url, authorization_servers: [trusted] },
    },
    [`${trusted}/.well-known/oauth-authorization-server`]: {
      json: { issuer: trusted, token_endpoint: `${trusted}/token` },
    },
    [token]: answer,
  });
  const clients = registeredClients(store);
  const readPrivateKey = () => Promise.reject(new Error('no key'));
  const ports = { http, clock, store, vault, lock: processRefreshLock(), clients, readPrivateKey };
  const credentials = { kind: 'authorization_code' as const };
  const renew = async (wider = false) =>
    personGrant({ url, credentials }, { previous, wider }, ports);
  const sent = () => requests.filter((request) => request.url.href === token);
  return { vault, renew, sent, requests };
}

const granted = (refreshToken?: string): Page => ({
  json: {
    access_token: 'a2',
    token_type: 'Bearer',
    expires_in: 60,
    ...(refreshToken !== undefined && { refresh_token: refreshToken }),
  },
});
const invalid: Page = { status: 400, json: { error: 'invalid_grant' } };

test('refresh token: it returns an access token and the next refresh token', async () => {
  const { renew, sent } = await signedIn(() => granted('r2'));

  expect(await renew()).toEqual({
    accessToken: 'a2',
    obtainedAt: 1_000,
    expiresAt: 1_060,
    issuer,
    published: true,
    scope: 'read',
    refresh: { refreshToken: 'r2', clientId: 'c' },
  });
  expect(Object.fromEntries(sent()[0]?.form ?? [])).toEqual({
    grant_type: 'refresh_token',
    refresh_token: 'r1',
    resource: url,
    client_id: 'c',
  });
});

test('refresh token: it stays the same if the server does not rotate it', async () => {
  const { renew } = await signedIn(() => granted());

  expect(await renew()).toMatchObject({ refresh: { refreshToken: 'r1' } });
});

test('refresh token: when the server rejects it, it is deleted and the sign-in ends', async () => {
  const { renew, vault } = await signedIn(() => invalid);

  await expect(renew()).rejects.toMatchObject({ name: 'TokenError', code: 'signed_out' });
  expect(await vault.refresh(issuer)).toBeUndefined();
});

test('refresh token: it is kept while a setting suspends the sign-in, and the error has the reason', async () => {
  const words = 'suspended: an administrator disabled this MCP server';
  const { renew, vault } = await signedIn(() => ({
    status: 400,
    json: { error: 'invalid_grant', error_description: words },
  }));

  await expect(renew()).rejects.toMatchObject({
    code: 'suspended',
    details: { errorDescription: words },
  });
  expect(await vault.refresh(issuer)).toMatchObject({ refreshToken: 'r1' });
});

test('refresh token: if another process has just rotated it, the new one is read and kept', async () => {
  const { renew, vault, sent } = await signedIn((request) => {
    if (request.form.get('refresh_token') !== 'r1') return granted('r3');
    const refresh = { refreshToken: 'r2', clientId: 'c' };
    void vault.save({ accessToken: 'b', obtainedAt: 0, issuer, published: true, refresh });
    return invalid;
  });

  expect(await renew()).toMatchObject({ refresh: { refreshToken: 'r3' } });
  expect(sent().map((request) => request.form.get('refresh_token'))).toEqual(['r1', 'r2']);
});

test('refresh token: it is never sent to another issuer', async () => {
  const other = 'https://other.example.com';
  const { renew, requests, vault } = await signedIn(() => granted('r2'), other);

  await expect(renew()).rejects.toMatchObject({ code: 'signed_out' });
  expect(requests.filter((request) => request.method === 'POST')).toHaveLength(1);
  expect(await vault.refresh(issuer)).toMatchObject({ refreshToken: 'r1' });
});

test('refresh token: a server error keeps it', async () => {
  const { renew, vault } = await signedIn(() => ({ status: 503 }));

  await expect(renew()).rejects.toMatchObject({ name: 'OAuthError', code: 'unreachable' });
  expect(await vault.refresh(issuer)).toMatchObject({ refreshToken: 'r1' });
});

test('refresh token: it is not sent for additional scopes, which require the person', async () => {
  const { renew, requests } = await signedIn(() => granted('r2'));

  await expect(renew(true)).rejects.toMatchObject({ code: 'signed_out' });
  expect(requests).toEqual([]);
});
