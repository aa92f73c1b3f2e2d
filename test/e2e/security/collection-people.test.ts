import { expect, test } from 'vitest';
import { z } from 'zod';

import { grantingServer } from '#support/granting-server';
import { mcpCall, modern } from '#support/mcp-call';
import { runCommandInProcess } from '#support/run-command-in-process';

test('202: a person uses of a collection only the members that they may use themselves', async () => {
  await using server = await grantingServer();
  const { base, dataDir } = server;
  const command = (...words: string[]) => runCommandInProcess([...words, '--data-dir', dataDir]);
  await command('collection', 'create', 'acme/desk', '--member', 'sales');
  const browser = await server.browser();
  const resource = `${base}/mcp/acme/desk`;
  const words = [
    '--name',
    'desk',
    '--redirect-uri',
    server.redirectUri,
    '--scope',
    'mcp:tools:read',
    '--scope',
    'mcp:tools:execute',
    '--json',
  ];
  const client = z
    .object({ client_id: z.string(), client_secret: z.string() })
    .parse(JSON.parse(await command('client', 'create', 'acme/desk', ...words)));
  const issued = await server.code(browser, { resource, client_id: client.client_id });
  const { json } = await server.redeem(issued, { resource, ...client });
  const { access_token: token } = z.object({ access_token: z.string() }).parse(json);
  const ask = async (method: string, params = {}) =>
    (await mcpCall(resource, { token, ...modern(method, params) })).text;

  expect(await ask('tools/list')).toContain('"name":"list_tables"');
  const page = await fetch(`${base}/dashboard/acme/servers/desk/tools`, {
    headers: { cookie: browser.cookie },
  });
  expect(await page.text()).toContain('list_tables');

  await command('group', 'create', 'acme', 'Librarians');
  await command('server', 'set-groups', 'acme/sales', '--group', 'Librarians');
  expect(await ask('tools/list')).not.toContain('list_tables');
  expect(await ask('tools/call', { name: 'list_tables', arguments: {} })).toContain(
    'unknown tool: list_tables',
  );
});
