/**
 * The clients of a collection besides the SDKs: the Inspector's command line, `latchkey setup`, and the
 * page on which a person tries a tool. None of them knows that it is a collection.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';

import { bodyOf, countedServer } from '#support/counted-server';
import { latchkeyHome } from '#support/latchkey-home';
import { patient } from '#support/patient';
import { runProgram } from '#support/processes';
import { runCommandInProcess } from '#support/run-command-in-process';
import { runningServer, type RunningServer } from '#support/running-server';
import { visitor } from '#support/visitor';

const inspector = join(import.meta.dirname, '../../../node_modules/.bin/mcp-inspector');
const dana = { email: 'dana@example.com', password: 'correct horse battery' };
const stack = new AsyncDisposableStack();
let server: RunningServer;
let key = '';

/** A member whose one tool says who it is. */
async function member(name: string) {
  const results: Readonly<Record<string, object>> = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name, version: '1' },
    },
    'tools/list': { tools: [{ name: `ask_${name}`, inputSchema: { type: 'object' } }] },
    'tools/call': { content: [{ type: 'text', text: `here is ${name}` }] },
  };
  return countedServer(async (request, response) => {
    const { id, method } = z
      .object({ id: z.union([z.string(), z.number()]).optional(), method: z.string().optional() })
      .parse(JSON.parse((await bodyOf(request)) || '{}'));
    if (id === undefined) return void response.writeHead(202).end();
    const result = results[method ?? ''];
    const error = { code: -32_601, message: 'Method not found' };
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }));
  });
}

beforeAll(async () => {
  server = stack.use(await runningServer());
  await server.command('organization', 'create', 'acme');
  for (const name of ['sales', 'wiki']) {
    const { origin } = stack.use(await member(name));
    await server.command('server', 'create', `acme/${name}`, '--http-url', `${origin}/mcp`);
  }
  const members = ['--member', 'sales', '--member', 'wiki'];
  await server.command('collection', 'create', 'acme/desk', ...members);
  const made = await server.command('key', 'create', 'acme/desk', '--name', 'k');
  ({ key } = z.object({ key: z.string() }).parse(made));
});
afterAll(() => stack.disposeAsync());

test.each([
  [['tools/list'], ['"ask_sales"', '"ask_wiki"']],
  [['tools/call', '--tool-name', 'ask_wiki'], ['here is wiki']],
])('MCP Inspector, command line: %j at a collection', async (words, found) => {
  await using home = await latchkeyHome({});
  const url = `${server.base}/mcp/acme/desk`;
  const options = ['--cli', url, '--transport', 'http', '--format', 'json', '-q'];
  const { code, stdout, stderr } = await runProgram(inspector, {
    args: [...options, '--header', `X-API-Key: ${key}`, '--method', ...words],
    env: { HOME: home.path, MCP_INSPECTOR_SECRET_STORE: 'file' },
  });

  expect({ code, stderr }).toMatchObject({ code: 0 });
  for (const text of found) expect(stdout).toContain(text);
});

test('latchkey setup: counts the tools of all members of a collection', async () => {
  await using home = await latchkeyHome({});
  const keyFile = join(home.path, 'key');
  writeFileSync(keyFile, 'k'.repeat(44), { mode: 0o600 });
  const place = ['--secret-store', 'file', '--secret-store-key-file', keyFile];
  const state = ['--state-dir', join(home.path, 'state')];
  await home.write('.cursor/mcp.json', '{}');

  const words = ['setup', `${server.base}/mcp/acme/desk`, '--api-key', ...place, ...state];
  const done = await home.json(words, `${key}\n`);

  expect(done).toMatchObject({ name: 'desk', tools: 2, checked: { as: 'api_key' } });
});

test('Try it: lists what a person sees of a collection, and calls it', async () => {
  const words = ['user', 'create', dana.email, '--organization', 'acme', '--role', 'owner'];
  await runCommandInProcess([...words, '--data-dir', server.dataDir], `${dana.password}\n`);
  const person = visitor(server.base);
  await person.signIn(dana.email, dana.password);
  const path = '/dashboard/acme/servers/desk/try';

  const page = await (await person.get(path)).text();
  const called = await person.submit(`${path}?tool=ask_sales`, { tool: 'ask_sales' });

  expect(page).toContain('ask_sales');
  expect(page).toContain('ask_wiki');
  expect(await called.text()).toContain('here is sales');
});

test('Activity: the page of a call through a collection leads to the member and to the collection', async () => {
  const listed = z.array(z.object({ id: z.string() }));
  const calls = async () => listed.parse(await server.command('call', 'list', 'acme/sales'));
  await expect.poll(calls, patient).toHaveLength(1);
  const [call] = await calls();
  const person = visitor(server.base);
  await person.signIn(dana.email, dana.password);

  const page = await (await person.get(`/dashboard/acme/activity/${call?.id}`)).text();
  const [ofMember, ofCollection] = await Promise.all(
    ['sales', 'desk'].map(async (name) =>
      (await person.get(`/dashboard/acme/servers/${name}`)).text(),
    ),
  );

  expect(page).toMatch(/Server<[^]*\/dashboard\/acme\/servers\/sales/);
  expect(page).toMatch(/Through the collection<[^]*\/dashboard\/acme\/servers\/desk/);
  expect(ofMember).toContain(`/dashboard/acme/activity/${call?.id}`);
  expect(ofCollection).toContain(`/dashboard/acme/activity/${call?.id}`);
});
