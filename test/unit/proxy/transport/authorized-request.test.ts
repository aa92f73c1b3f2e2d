import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { expect, test } from 'vitest';
import type { HttpClient } from '#proxy/transport/http-client';
import { authorizedRequest } from '#proxy/transport/authorized-request';
import { staticCredential } from '#proxy/transport/credential';

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

    await expect(asked).rejects.toThrow(/^https:\/\/mcp\.example\.com\/mcp (wants|does not)/);
  },
);
