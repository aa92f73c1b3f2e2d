import { expect, test } from 'vitest';
import { words } from '#proxy/errors';
import { endpointCheck, listTools } from '#proxy/status/endpoint-check';
import { staticCredential } from '#proxy/transport/credential';
import { httpClient } from '#proxy/transport/http-client';
import { bodyOf, countedServer } from '#support/counted-server';
import { fakeClock } from '#support/fake-clock';

const signal = new AbortController().signal;

/** A server that answers every request with one error. */
async function refusingServer(error: object) {
  const server = await countedServer(async (request, response) => {
    const { id }: { id?: unknown } = JSON.parse((await bodyOf(request)) || '{}');
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, error }));
  });
  const http = httpClient(() => ({ env: {} }));
  const connection = {
    name: 'sales',
    url: `${server.origin}/mcp/acme/sales`,
    source: 'a file',
    account: 'sales',
    credentials: { kind: 'api_key', apiKeySecret: '' },
  } as const;
  const noted: (string | undefined)[] = [];
  const ports = {
    noteMissingAccount: async (text: string | undefined) => void noted.push(text),
    clock: fakeClock(),
    http,
    credential: async () => staticCredential({}),
    maxMessageBytes: 10_000,
    words: (failure: unknown) => words(failure, connection),
  };
  return {
    connection,
    ports,
    noted,
    async [Symbol.asyncDispose]() {
      http.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

const page =
  'connect your account for this MCP server first: open https://cloud.example.com/servers/own-key/account';

test('doctor: a missing account is a warning with the page where it can be connected', async () => {
  await using server = await refusingServer({ code: -32042, message: page });
  const check = endpointCheck(server.connection, server.ports);

  expect(await check.run(signal)).toEqual([
    {
      check: 'endpoint',
      state: 'warn',
      what: page,
      hint: 'open that page and connect your account',
    },
  ]);
  expect(server.noted).toEqual([page]);
});

test('doctor: a refused handshake is reported with the server’s reason', async () => {
  await using server = await refusingServer({ code: -32000, message: 'the licence has expired' });
  const check = endpointCheck(server.connection, server.ports);
  const error: unknown = await Promise.resolve(check.run(signal)).catch(
    (failure: unknown) => failure,
  );

  expect(words(error)).toMatchObject({
    message: 'the server refused the request: the licence has expired',
    hint: 'contact the administrator of the server',
  });
  expect(server.noted).toEqual([]);
});

test('setup: a missing account is reported with its remedy, and not as a wrong URL', async () => {
  await using server = await refusingServer({ code: -32042, message: page });
  const listed = listTools(server.connection, server.ports, signal);
  const error: unknown = await listed.catch((failure: unknown) => failure);

  expect(words(error)).toMatchObject({
    message: page,
    hint: 'open that page and connect your account',
  });
  expect(server.noted).toEqual([page]);
});
