import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readReference } from '#proxy/auth/client-authentication';
import { workloadGrant } from '#proxy/auth/workload-grant';
import { fakeClock } from '#support/fake-clock';
import { temporaryFolder } from '#support/temporary-folder';
import { web, type Page, type SeenForm } from '#support/web';

const url = 'https://mcp.example.com/mcp/acme/sales';
const issuer = 'https://as.example.com';
const tokenEndpoint = `${issuer}/token`;
const access: Page = { json: { access_token: 'a1', token_type: 'Bearer', expires_in: 3600 } };
const refused: Page = { status: 400, json: { error: 'invalid_grant' } };

/** A workload whose platform gives it `given.jwt`. */
function workload(answer: (request: SeenForm) => Page = () => access) {
  const clock = fakeClock(1_000);
  const { http, requests } = web({
    [url]: { status: 401 },
    'https://mcp.example.com/.well-known/oauth-protected-resource/mcp/acme/sales': {
      json: { resource: url, authorization_servers: [issuer] },
    },
    [`${issuer}/.well-known/oauth-authorization-server`]: {
      json: { issuer, token_endpoint: tokenEndpoint },
    },
    [tokenEndpoint]: answer,
  });
  const given = { jwt: 'jwt1' };
  const credentials = {
    kind: 'client_credentials' as const,
    assertion: 'env:JWT',
    scopes: ['read'],
  };
  const ports = { http, clock, refused: new Map(), readAssertion: async () => given.jwt };
  return {
    given,
    grant: async () => workloadGrant({ url, credentials }, { wider: false }, ports),
    sent: () => requests.filter((request) => request.url.href === tokenEndpoint),
  };
}

test('workload: its assertion alone gets a token: no client, no secret', async () => {
  const { grant, sent } = workload();

  expect(await grant()).toMatchObject({ accessToken: 'a1', expiresAt: 4_600, issuer });
  const [asked] = sent();
  expect(Object.fromEntries(asked?.form ?? [])).toEqual({
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: 'jwt1',
    resource: url,
    scope: 'read',
  });
  expect(asked?.headers).not.toHaveProperty('authorization');
});

test('workload: a refused assertion is not sent again, a new one is', async () => {
  const { grant, sent, given } = workload(({ form }) =>
    form.get('assertion') === 'jwt1' ? refused : access,
  );

  await expect(grant()).rejects.toMatchObject({ code: 'refused' });
  await expect(grant()).rejects.toMatchObject({ code: 'refused' });
  expect(sent()).toHaveLength(1);

  given.jwt = 'jwt2';
  expect(await grant()).toMatchObject({ accessToken: 'a1' });
  expect(new Set(sent().map(({ form }) => form.get('grant_type')))).toHaveLength(1);
});

test('workload: after an outage of the server, the same assertion is sent again', async () => {
  let isDown = true;
  const { grant } = workload(() => (isDown ? { status: 503 } : access));

  await expect(grant()).rejects.toMatchObject({ code: 'unreachable' });
  isDown = false;
  expect(await grant()).toMatchObject({ accessToken: 'a1' });
});

test('reference: a file is read each time, and a variable is, too', async () => {
  await using folder = await temporaryFolder('reference');
  const file = join(folder.path, 'token');
  await writeFile(file, 'first\n');
  const first = await readReference(`file:${file}`, {});
  await writeFile(file, 'second');

  expect(first).toBe('first');
  expect(await readReference(`file:${file}`, {})).toBe('second');
  expect(await readReference('env:CI_JWT', { CI_JWT: ' jwt ' })).toBe('jwt');
});

test.each([
  ['env:MISSING', 'env:MISSING is empty'],
  ['env:LINES', 'env:LINES is not one line of at most 32768 ASCII characters'],
  ['file:/nowhere/token', 'file:/nowhere/token cannot be read (ENOENT)'],
])('reference: %s names the problem, without the text', async (reference, message) => {
  await expect(readReference(reference, { LINES: 'one\ntwo' })).rejects.toMatchObject({
    code: 'client',
    message,
  });
});
