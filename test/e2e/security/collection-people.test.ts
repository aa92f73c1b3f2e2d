import { expect, test } from 'vitest';
import { z } from 'zod';

import { grantingServer } from '#support/granting-server';
import { freePort } from '#support/loopback';
import { mcpCall, modern } from '#support/mcp-call';
import { runCommandInProcess } from '#support/run-command-in-process';

const answerSchema = z.object({
  result: z.record(z.string(), z.unknown()).optional(),
  error: z.object({ message: z.string() }).optional(),
});

/** A person with a token for the collection acme/desk. */
async function personAtDesk(server: Awaited<ReturnType<typeof grantingServer>>) {
  const { base, dataDir } = server;
  const command = (...words: string[]) => runCommandInProcess([...words, '--data-dir', dataDir]);
  const browser = await server.browser();
  const resource = `${base}/mcp/acme/desk`;
  const scopes = ['--scope', 'mcp:tools:read', '--scope', 'mcp:tools:execute'];
  const words = ['--name', 'desk', '--redirect-uri', server.redirectUri, ...scopes, '--json'];
  const client = z
    .object({ client_id: z.string(), client_secret: z.string() })
    .parse(JSON.parse(await command('client', 'create', 'acme/desk', ...words)));
  const issued = await server.code(browser, { resource, client_id: client.client_id });
  const { json } = await server.redeem(issued, { resource, ...client });
  const { access_token: token } = z.object({ access_token: z.string() }).parse(json);
  const asking = async (
    credential: { token?: string; key?: string },
    method: string,
    params = {},
  ) => (await mcpCall(resource, { ...credential, ...modern(method, params) })).text;
  return {
    command,
    browser,
    asking,
    ask: (method: string, params = {}) => asking({ token }, method, params),
  };
}

test('202: a person uses of a collection only the members that they may use themselves', async () => {
  await using server = await grantingServer();
  const create = ['collection', 'create', 'acme/desk', '--member', 'sales'];
  await runCommandInProcess([...create, '--data-dir', server.dataDir]);
  const { command, browser, ask } = await personAtDesk(server);

  expect(await ask('tools/list')).toContain('"name":"list_tables"');
  const page = await fetch(`${server.base}/dashboard/acme/servers/desk/tools`, {
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

test.each([
  ['', [], 'unknown tool: whatever'],
  [
    ', which restricts its tools',
    [['tool', 'restrict', 'acme/desk', 'x', '--group', 'Librarians']],
    'cannot be reached',
  ],
])(
  '202: a person who may not use a member that is away and was never read learns nothing of it from a collection%s',
  async (_, rules, told) => {
    await using server = await grantingServer();
    const { dataDir } = server;
    const run = (...words: string[]) => runCommandInProcess([...words, '--data-dir', dataDir]);
    const url = `http://127.0.0.1:${await freePort()}/mcp`;
    await run('server', 'create', 'acme/remote', '--http-url', url);
    await run('collection', 'create', 'acme/desk', '--member', 'remote');
    await run('group', 'create', 'acme', 'Librarians');
    for (const words of rules) await run(...words);
    await run('server', 'set-groups', 'acme/remote', '--group', 'Librarians');
    const { ask, asking } = await personAtDesk(server);
    const made = await run('key', 'create', 'acme/desk', '--name', 'k', '--json');
    const { key } = z.object({ key: z.string() }).parse(JSON.parse(made));
    const call = { name: 'whatever', arguments: {} };

    const byKey = await asking({ key }, 'tools/call', call);
    const called = answerSchema.parse(JSON.parse(await ask('tools/call', call)));
    const listed = answerSchema.parse(JSON.parse(await ask('tools/list')));
    const ofKey = await asking({ key }, 'tools/list');

    expect(listed.result).toMatchObject({ tools: [] });
    expect(called.error?.message).toBe('unknown tool: whatever');
    expect(JSON.stringify([listed, called])).not.toContain('remote');
    // Nobody knows its tools, not even those who may use it.
    expect(ofKey).toContain('cannot be reached');
    expect(byKey).toContain(told);
  },
);
