import { afterAll, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { operations } from '#server/admin/operations';
import { callingPerson } from '#support/calling-person';
import { mcpCall, rpc } from '#support/mcp-call';
import { patient } from '#support/patient';
import { serverProcess } from '#support/server-process';
import { legacyAnswer, recordingUpstream, sendJson } from '#support/upstreams/recording-upstream';

/** Rules close `closed_of_group`, an administrator hides `closed_hidden`, and nobody accepts `closed_new`. */
const tools = ['open_to_all', 'closed_of_group', 'closed_hidden'];
const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());
const upstream = stack.use(await recordingUpstream());
upstream.answer = (request, response) => {
  if (!request.body.includes('"tools/list"')) return legacyAnswer(request, response);
  const { id } = z.object({ id: z.unknown() }).parse(JSON.parse(request.body.toString()));
  const result = { tools: tools.map((name) => ({ name, inputSchema: { type: 'object' } })) };
  sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result }));
};
const server = stack.use(await serverProcess());
const { base, command } = server;
const json = async (...words: string[]) => JSON.parse(await command([...words, '--json']));
const web = 'acme/web';

await command(['organization', 'create', 'acme']);
await command(['server', 'create', web, '--http-url', upstream.url]);
await command(['group', 'create', 'acme', 'finance']);
const admin = await callingPerson(server, 'admin@acme.example', {
  organization: 'acme',
  role: 'admin',
});
const viewer = await callingPerson(server, 'viewer@acme.example', {
  organization: 'acme',
  role: 'viewer',
});
const member = await callingPerson(server, 'member@acme.example', {
  organization: 'acme',
  role: 'member',
});
await command(['collection', 'create', 'acme/desk', '--member', 'web=open_to_all,closed_of_group']);
const chosen = ['--name', 'k', '--tools', 'open_to_all,closed_of_group'];
const key = z
  .object({ id: z.string(), key: z.string() })
  .parse(await json('key', 'create', web, ...chosen));
const { client_id: clientId } = z
  .object({ client_id: z.string() })
  .parse(await json('client', 'create', web, ...chosen, '--scope', 'mcp:tools:read'));
const reader = ['--name', 'r', '--scope', 'mcp:tools:read', '--scope', 'mcp:server:read'];
const { key: readingKey } = z
  .object({ key: z.string() })
  .parse(await json('key', 'create', web, ...reader));
const deskKey = z
  .object({ key: z.string() })
  .parse(await json('key', 'create', 'acme/desk', '--name', 'd'));
const list = (endpoint: string, withKey: string) =>
  mcpCall(`${base}/mcp/${endpoint}`, {
    key: withKey,
    body: rpc('tools/list'),
    headers: { 'mcp-protocol-version': '2025-06-18' },
  });
await list('acme/desk', deskKey.key);
await command(['server', 'update', web, '--new-tools', 'review']);
tools.push('closed_new');
await list(web, readingKey);
await command(['server', 'hide-tools', web, '--tool', 'closed_hidden']);
await command(['tool', 'restrict', web, 'closed_of_group', '--group', 'finance']);

const parameters: Readonly<Record<string, string>> = {
  organization: 'acme',
  server: 'web',
  collection: 'desk',
  keyId: key.id,
  clientId,
};

/** The paths below `/organizations` of all operations that only read, if everything that they name exists here. */
const paths = operations.flatMap(({ route }) => {
  const [, below] = route?.path.split(/^\/organizations(?=\/)/) ?? [];
  if (route?.method !== 'GET' || below === undefined) return [];
  const filled = below.replaceAll(/\{(\w+)\}/g, (whole, name: string) => parameters[name] ?? whole);
  if (filled.includes('{')) return [];
  const ofCollection = filled.replace('/servers/web', '/servers/desk');
  return filled === ofCollection ? [filled] : [filled, ofCollection];
});

const home = '/dashboard/acme';
const pages = [
  home,
  `${home}/servers`,
  `${home}/clients`,
  ...['', '/clients', '/keys', '/tools'].map((tab) => `${home}/servers/web${tab}`),
  `${home}/servers/web/keys/${key.id}`,
  `${home}/servers/web/clients/${clientId}`,
  ...['', '/members', '/tools'].map((tab) => `${home}/servers/desk${tab}`),
];

/** The closed names that a text contains. */
const closedIn = (text: string) => [...new Set(text.match(/closed_\w+/g))].toSorted();

test('213: closed names: the admin API tells a viewer none, wherever it tells an admin one', async () => {
  const told: Record<string, readonly string[]> = {};
  for (const path of paths) {
    const [ofAdmin, ofViewer] = [await admin.ask(path), await viewer.ask(path)];
    told[path] = closedIn(await ofAdmin.text());

    expect([path, closedIn(await ofViewer.text())]).toEqual([path, []]);
  }

  const ofServer = ['closed_hidden', 'closed_new'];
  const selected = ['closed_of_group'];
  expect(told).toMatchObject({
    '/acme/servers': ofServer,
    '/acme/servers/web': ofServer,
    '/acme/servers/web/tools': ['closed_hidden', 'closed_new', 'closed_of_group'],
    '/acme/servers/desk/tools': selected,
    '/acme/keys': selected,
    [`/acme/keys/${key.id}`]: selected,
    '/acme/clients': selected,
    [`/acme/clients/${clientId}`]: selected,
    '/acme/collections/desk': selected,
  });
  const view = z
    .object({ tools: z.unknown() })
    .parse(await (await viewer.ask(`/acme/keys/${key.id}`)).json());
  expect(view.tools).toMatchObject({ tools: ['open_to_all'], others: 1 });
});

test('213: closed names: pages show a viewer and a member none', async () => {
  const ofMember = [...pages, `${home}/servers/web/try`];
  for (const [person, shown] of [[viewer, pages] as const, [member, ofMember] as const]) {
    for (const path of shown) {
      const answer = await person.browser.get(path);

      expect([path, answer.status, closedIn(await answer.text())]).toEqual([path, 200, []]);
    }
  }
  const ofAdmin = await (await admin.browser.get(`${home}/servers/web/keys/${key.id}`)).text();
  expect(closedIn(ofAdmin)).toEqual(['closed_of_group']);
});

test('213: closed names: the settings of a server tell them only to a credential that manages it', async () => {
  const manager = z
    .object({ key: z.string() })
    .parse(await json('key', 'create', web, ...reader, '--scope', 'mcp:server:manage'));
  const settings = async (withKey: string) => {
    const answer = await fetch(`${base}/api/servers/${web}`, { headers: { 'x-api-key': withKey } });
    return { closed: closedIn(await answer.text()), etag: answer.headers.get('etag') };
  };

  const before = await settings(readingKey);
  await command(['server', 'hide-tools', web, '--tool', 'closed_hidden', '--tool', 'closed_new']);
  expect((await settings(manager.key)).closed).toEqual(['closed_hidden', 'closed_new']);
  // A version that differed would tell that something was hidden, and confirm a guessed name.
  expect(await settings(readingKey)).toEqual({ closed: [], etag: before.etag });
});

test('214: closed names: a person learns from none of their recorded calls whether there is such a tool', async () => {
  const scopes = ['--scope', 'mcp:tools:read', '--scope', 'mcp:tools:execute'];
  const words = [...scopes, '--redirect-uri', 'http://127.0.0.1/callback'];
  const app = z
    .object({ client_id: z.string() })
    .parse(await json('client', 'create', web, '--name', 'app', ...words));
  const token = await viewer.allow(app.client_id);
  const probes = ['closed_of_group', 'closed_hidden', 'closed_new', 'no_such_tool'];
  for (const name of probes) {
    await mcpCall(`${base}/mcp/${web}`, {
      token,
      body: rpc('tools/call', { name, arguments: {} }),
      headers: { 'mcp-protocol-version': '2025-06-18' },
    });
  }
  const rows = z.object({
    items: z.array(
      z.object({
        tool: z.string(),
        outcome: z.string(),
        error: z.string().nullable(),
        reason: z.string().nullable(),
      }),
    ),
  });
  const { items } = await vi.waitFor(async () => {
    const found = rows.parse(await (await viewer.ask('/acme/calls')).json());
    if (found.items.length < probes.length) throw new Error('not all are recorded');
    return found;
  }, patient);

  expect(items.map(({ tool }) => tool).toSorted()).toEqual(probes.toSorted());
  expect(
    new Set(items.map(({ outcome, error, reason }) => `${outcome} ${error} ${reason}`)).size,
  ).toBe(1);
  const activity = await viewer.browser.get(`${home}/activity`);
  expect(await activity.text()).not.toMatch(/hidden the tool|not open to|accepted it|hidden_tool/);
});
