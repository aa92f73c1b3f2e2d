import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { rereadCredential, authorizedRequest, staticCredential } from '#proxy/transport/credential';
import type { HttpClient } from '#proxy/transport/http-client';

test('rejected API key: it is read again, and not used again if it is still the same', async () => {
  let key = 'old';
  const credential = rereadCredential({ 'x-api-key': key }, () =>
    Promise.resolve({ 'x-api-key': key }),
  );
  const same = await credential.renewed(await credential.headers(), undefined);
  key = 'new';
  const other = await credential.renewed(await credential.headers(), undefined);

  expect(same).toBeUndefined();
  expect(other).toEqual({ 'x-api-key': 'new' });
  expect(await credential.headers()).toEqual({ 'x-api-key': 'new' });
});

test.each<Record<string, string>>([{}, { 'x-api-key': 'k' }])(
  'rejected credential: the error names the URL without the key in it',
  async (proof) => {
    const url = new URL('https://mcp.example.com/mcp?key=hunter22');
    const refusal = Object.assign(new IncomingMessage(new Socket()), { statusCode: 401 });
    const http: HttpClient = {
      request: () => Promise.resolve(refusal),
      networkOf: () => Promise.resolve('public'),
      close: () => undefined,
    };
    const ports = { credential: staticCredential(proof), http };
    const asked = authorizedRequest({ url, method: 'GET', headers: {} }, ports);

    await expect(asked).rejects.toThrow(
      /^https:\/\/mcp\.example\.com\/mcp (requires authentication|rejected this API key)/,
    );
  },
);

test('suspended credential: it is not renewed, and the error has the server’s reason', async () => {
  const why = 'suspended: an administrator disabled this MCP server';
  const challenge = `Bearer error="invalid_token", error_description="${why}", scope="a"`;
  const refusal = Object.assign(new IncomingMessage(new Socket()), {
    statusCode: 401,
    headers: { 'www-authenticate': challenge },
  });
  let asked = 0;
  const http: HttpClient = {
    request: () => Promise.resolve(((asked += 1), refusal)),
    networkOf: () => Promise.resolve('public'),
    close: () => undefined,
  };
  const credential = {
    ...staticCredential({ authorization: 'Bearer a' }),
    renewed: () => Promise.reject(new Error('renewed')),
  };
  const url = new URL('https://mcp.example.com/mcp');

  await expect(
    authorizedRequest({ url, method: 'GET', headers: {} }, { credential, http }),
  ).rejects.toMatchObject({ code: 'suspended', message: why, status: 401 });
  expect(asked).toBe(1);
});
