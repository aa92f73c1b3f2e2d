import {
  Client,
  CrossAppAccessProvider,
  discoverAndRequestJwtAuthGrant,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { assertionProvider, type AssertionProvider } from '#support/assertion-provider';
import { serverProcess, type ServerProcess } from '#support/server-process';

const madeClient = z.object({ client_id: z.string(), client_secret: z.string() });
let company: AssertionProvider;
let server: ServerProcess;
let client: z.output<typeof madeClient>;

/** oidc-provider is the identity provider of acme, where Dana is a member. */
beforeAll(async () => {
  company = await assertionProvider();
  const hosts = ['--outbound-host', '127.0.0.1'];
  server = await serverProcess({ args: hosts });
  const run = (...words: string[]) => server.command(words);
  await run('organization', 'create', 'acme');
  for (const name of ['sales', 'wiki']) await run('server', 'create', `acme/${name}`, '--demo');
  const words = ['--name', 'Acme ID', '--issuer', company.issuer, ...hosts, '--json'];
  const made = await run('provider', 'create', 'acme', ...words);
  const { id } = z.object({ id: z.string() }).parse(JSON.parse(made));
  await run('provider', 'assertions', 'acme', id, '--allow', 'yes');
  await run('domain', 'add', 'acme', 'example.com');
  await run('domain', 'confirm', 'acme', 'example.com');
  await server.command(
    ['user', 'create', 'dana@example.com', '--organization', 'acme', '--role', 'member'],
    'correct horse battery',
  );
  const created = await run('client', 'create-for-organization', 'acme', '--name', 'X', '--json');
  client = madeClient.parse(JSON.parse(created));
  company.register(server.base, client.client_id);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await company[Symbol.asyncDispose]();
});

const sdkClient = (idToken: string) =>
  new CrossAppAccessProvider({
    assertion: async ({ authorizationServerUrl, resourceUrl, scope, fetchFn }) => {
      const { jwtAuthGrant } = await discoverAndRequestJwtAuthGrant({
        idpUrl: company.issuer,
        // The SDK writes the issuer as a URL, with a slash.
        audience: authorizationServerUrl.replace(/\/$/, ''),
        resource: resourceUrl,
        idToken,
        clientId: company.clientId,
        clientSecret: company.clientSecret,
        ...(scope !== undefined && { scope }),
        fetchFn,
      });
      return jwtAuthGrant;
    },
    clientId: client.client_id,
    clientSecret: client.client_secret,
    expectedIssuer: server.base,
  });

test('cross-app access: the MCP SDK reaches two servers with one registration and one sign-in at the company', async () => {
  const { idToken } = await company.signIn('dana');
  for (const name of ['sales', 'wiki']) {
    const url = new URL(`${server.base}/mcp/acme/${name}`);
    const transport = new StreamableHTTPClientTransport(url, { authProvider: sdkClient(idToken) });
    await using sdk = Object.assign(new Client({ name: 'sdk', version: '1.0.0' }), {
      [Symbol.asyncDispose]: () => transport.close(),
    });
    await sdk.connect(transport);

    expect((await sdk.listTools()).tools.length).toBeGreaterThan(0);
  }
  const list = z.array(z.object({ user: z.string(), server: z.string() }));
  const consents = await server.command(['consent', 'list', 'acme', '--json']);

  expect(
    list
      .parse(JSON.parse(consents))
      .map((one) => one.server)
      .toSorted(),
  ).toEqual(['acme/sales', 'acme/wiki']);
  expect(company.exchanges.length).toBeGreaterThanOrEqual(2);
});

test('cross-app access: the MCP SDK gets nothing for someone who is no member', async () => {
  const { idToken } = await company.signIn('nobody');
  const url = new URL(`${server.base}/mcp/acme/sales`);
  const transport = new StreamableHTTPClientTransport(url, { authProvider: sdkClient(idToken) });
  const sdk = new Client({ name: 'sdk', version: '1.0.0' });

  await expect(sdk.connect(transport)).rejects.toThrow(
    'the assertion is about no member of the organization',
  );
  await transport.close();
});
