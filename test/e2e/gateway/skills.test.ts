/** Folders of skills before upstreams of every kind, as clients of both generations of the SDK meet them. */
import { rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import {
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { afterAll, expect, test, vi } from 'vitest';
import { z } from 'zod';

import { fixtureUpstream } from '#support/fixture-upstream';
import { gatewayUnderTest } from '#support/gateway-under-test';
import { legacyClient, modernClient } from '#support/mcp-clients';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { mcpListening } from '#support/mcp-listening';
import { skillText, writeFiles } from '#support/skill-text';
import { temporaryFolder } from '#support/temporary-folder';
import { dualUpstream } from '#support/upstreams/dual-upstream';
import { legacyStatefulUpstream } from '#support/upstreams/legacy-stateful-upstream';
import { patient } from '#support/patient';

const memory = join(
  import.meta.dirname,
  '../../../node_modules/@modelcontextprotocol/server-memory/dist/index.js',
);
const folder = await temporaryFolder();
const png = Buffer.from('89504e470d0a1a0a00ff', 'hex');
await writeFiles(folder.path, {
  'orders/SKILL.md': skillText('orders', 'How to look up orders.'),
  'orders/notes/états.md': 'é 世界',
  'orders/logo.png': png,
});
await using commands = await temporaryFolder();
const commandFile = join(commands.path, 'stdio.json');
const stdio = { command: process.execPath, args: [memory] };
await writeFile(commandFile, JSON.stringify({ servers: { 'tools/memory': stdio } }), {
  mode: 0o600,
});

const sessions = await legacyStatefulUpstream();
const dual = await dualUpstream();
const bare = await fixtureUpstream();
const served = ['acme/fixture', 'acme/dual', 'acme/bare', 'demo/library', 'tools/memory'];
const gateway = await gatewayUnderTest({
  upstreamUrl: sessions.url,
  organizations: ['tools'],
  start: [
    '--demo',
    '--stdio-servers',
    commandFile,
    ...served.flatMap((path) => ['--skills', `${path}=${folder.path}`]),
  ],
});
await gateway.command('server', 'create', 'acme/dual', '--http-url', dual.url);
await gateway.command('server', 'create', 'acme/bare', '--http-url', bare.url);
const keys = new Map<string, string>();
for (const path of served) keys.set(path, (await gateway.newKey(path)).key);

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await bare[Symbol.asyncDispose]();
  await sessions.close();
  await dual.close();
  await folder[Symbol.asyncDispose]();
});

const at = (path: string) => ({
  endpoint: `${gateway.base}/mcp/${path}`,
  key: keys.get(path) ?? '',
});
const manifest = 'skill://orders/SKILL.md';
const skillsAnswer = z.object({
  result: z.looseObject({ skills: z.array(z.looseObject({ uri: z.string() })) }),
});
const entries = z.array(z.looseObject({ uri: z.string() })).optional();
const listAnswer = z.object({
  result: z.object({ skills: entries, resources: entries, nextCursor: z.string().optional() }),
});
const uris = (resources: readonly { uri: string }[]) => resources.map(({ uri }) => uri);

test.for([
  ['http, with sessions', 'acme/fixture', ['memo://greeting']],
  ['http, both eras', 'acme/dual', ['memo://greeting']],
  ['http, without resources', 'acme/bare', []],
  ['demo', 'demo/library', ['skill://reading-the-library/SKILL.md']],
  ['stdio', 'tools/memory', []],
] as const)(
  'skills: a legacy client gets them and the upstream’s own resources: %s',
  async ([, path, own]) => {
    const { endpoint, key } = at(path);
    await using client = await legacyClient(endpoint, key);
    const capabilities = client.getServerCapabilities();
    const { resources } = await client.listResources();
    const { resourceTemplates } = await client.listResourceTemplates();
    const text = await client.readResource({ uri: manifest });
    const image = await client.readResource({ uri: 'skill://orders/logo.png' });
    const asked = await mcpCall(endpoint, { key, body: rpc('skills/list') });

    expect(capabilities).toMatchObject({
      tools: {},
      resources: { listChanged: true, subscribe: true },
      extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true } },
    });
    expect(uris(resources)[0]).toBe(manifest);
    expect(uris(resources)).toHaveLength(new Set(uris(resources)).size);
    expect(uris(resources)).toEqual(expect.arrayContaining([...own]));
    expect(
      resourceTemplates.filter(({ uriTemplate }) => uriTemplate === 'skill://{+path}'),
    ).toHaveLength(1);
    expect(text.contents).toMatchObject([{ uri: manifest, mimeType: 'text/markdown' }]);
    expect(image.contents).toMatchObject([{ blob: png.toString('base64'), mimeType: 'image/png' }]);
    expect(uris(skillsAnswer.parse(JSON.parse(asked.text)).result.skills)).toContain(manifest);
    expect((await client.listTools()).tools.length).toBeGreaterThan(0);
  },
);

test.for(['acme/dual', 'demo/library'])(
  'skills: a modern client lists, reads and verifies them: %s',
  async (path) => {
    const { endpoint, key } = at(path);
    await using client = await modernClient(endpoint, key);
    const { resources } = await client.listResources();
    const { contents } = await client.readResource({ uri: 'skill://orders/notes/%C3%A9tats.md' });
    const got = await mcpCall(endpoint, { key, ...modern('skills/get', { uri: manifest }) });
    const folderRead = modern('resources/directory/read', { uri: 'skill://orders' });
    const listed = await mcpCall(endpoint, { key, ...folderRead });

    expect(client.getServerCapabilities()).toMatchObject({
      resources: { listChanged: true },
      extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true } },
    });
    expect(uris(resources)).toContain(manifest);
    expect(contents).toMatchObject([{ text: 'é 世界' }]);
    expect(got.text).toMatch(/"digest":"sha256:[0-9a-f]{64}"/);
    expect(listed.text).toContain('"uri":"skill://orders/notes"');
  },
);

test('skills: the upstream’s own resources are read, and its tools called, as before', async () => {
  const { endpoint, key } = at('demo/library');
  await using client = await modernClient(endpoint, key);
  const uri = 'skill://reading-the-library/SKILL.md';

  expect((await client.readResource({ uri })).contents).toMatchObject([{ uri }]);
  expect(await client.callTool({ name: 'list_tables', arguments: {} })).toHaveProperty('content');
  await expect(client.readResource({ uri: 'skill://nowhere/SKILL.md' })).rejects.toThrow(
    'not found',
  );
});

test.for([
  'skill://orders/../../../etc/passwd',
  'skill://orders/%2e%2e/%2e%2e/etc/passwd',
  'skill://orders/..%2f..%2fetc%2fpasswd',
  'skill:///etc/passwd',
  'skill://orders\\..\\..\\etc\\passwd',
  'skill://orders/SKILL.md%00',
  'skill://orders/skill.md',
  'SKILL://ORDERS/SKILL.md',
])('79: skills: no URI leads out of the folder: %s', async (uri) => {
  for (const path of ['acme/fixture', 'acme/bare', 'acme/dual', 'demo/library']) {
    const { endpoint, key } = at(path);
    const reads = [
      'resources/read',
      'skills/get',
      'resources/directory/read',
      'resources/subscribe',
    ];
    for (const method of reads) {
      const { text, errorCode } = await mcpCall(endpoint, { key, body: rpc(method, { uri }) });
      expect(text).not.toContain('root:');
      expect([-32_602, -32_601, -32_002]).toContain(errorCode);
    }
  }
});

test('79: skills: a link that appears in the folder is not served, and removes its skill', async () => {
  const { endpoint, key } = at('acme/bare');
  await writeFiles(folder.path, { 'leaky/SKILL.md': skillText('leaky') });
  const list = async () => (await mcpCall(endpoint, { key, body: rpc('resources/list') })).text;
  await vi.waitFor(async () => expect(await list()).toContain('leaky'), patient);
  await symlink('/etc/passwd', join(folder.path, 'leaky/passwd.txt'));
  await vi.waitFor(async () => expect(await list()).not.toContain('leaky'), patient);
  const uri = 'skill://leaky/passwd.txt';
  const read = await mcpCall(endpoint, { key, body: rpc('resources/read', { uri }) });
  await rm(join(folder.path, 'leaky'), { recursive: true });

  expect(read.text).not.toContain('root:');
  expect(read.errorCode).toBe(-32_602);
});

test('56: skills: none is listed or read without mcp:resources:read', async () => {
  const path = 'acme/bare';
  const { endpoint } = at(path);
  const { key } = await gateway.newKey(path, '--scope', 'mcp:tools:read');
  for (const method of ['skills/list', 'resources/list', 'resources/read', 'skills/get']) {
    const { status, headers } = await mcpCall(endpoint, {
      key,
      body: rpc(method, { uri: manifest }),
    });
    expect(status).toBe(403);
    expect(headers.get('www-authenticate')).toContain('mcp:resources:read');
  }
});

test.for(['acme/fixture', 'acme/bare'])(
  'skills: a legacy session is notified of changes: %s',
  async (path) => {
    const { endpoint, key } = at(path);
    await using client = await legacyClient(endpoint, key);
    const lists = vi.fn();
    const updates = vi.fn();
    client.setNotificationHandler(ResourceListChangedNotificationSchema, lists);
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) =>
      updates(params.uri),
    );
    await client.subscribeResource({ uri: manifest });
    const name = `new-${path.split('/')[1]}`;
    await writeFiles(folder.path, { [`${name}/SKILL.md`]: skillText(name) });
    await vi.waitFor(() => expect(lists).toHaveBeenCalled(), patient);
    const more = `More for ${path}.`;
    await writeFiles(folder.path, { 'orders/SKILL.md': skillText('orders', 'Orders.', more) });
    await vi.waitFor(() => expect(updates).toHaveBeenCalledWith(manifest), patient);
    const { contents } = await client.readResource({ uri: manifest });
    const { resources } = await client.listResources();

    expect(JSON.stringify(contents)).toContain(more);
    expect(uris(resources)).toContain(`skill://${name}/SKILL.md`);
  },
);

test('skills: a modern subscription is notified of the upstream’s changes and of the skills’', async () => {
  const { endpoint, key } = at('acme/dual');
  await using listening = await mcpListening(endpoint, {
    key,
    notifications: {
      toolsListChanged: true,
      resourcesListChanged: true,
      resourceSubscriptions: [manifest],
    },
  });
  const { heard } = listening;
  const [first = ''] = heard().split('\n\n');
  await writeFiles(folder.path, { 'orders/SKILL.md': skillText('orders', 'Again.') });
  await vi.waitFor(() => expect(heard()).toContain('notifications/resources/updated'), patient);
  await dual.announceTools();
  await vi.waitFor(() => expect(heard()).toContain('notifications/tools/list_changed'), patient);

  expect(first).toContain('"toolsListChanged":true');
  expect(first).toContain('"resourcesListChanged":true');
  expect(first).toContain(`"resourceSubscriptions":["${manifest}"]`);
  expect(heard()).toContain('notifications/resources/list_changed');
  expect(heard().match(/acknowledged/g)).toHaveLength(1);
});

test('skills: long lists are paged, each entry once, with the upstream’s after the server’s', async () => {
  const names = Array.from(
    { length: 230 },
    (_, number) => `many-${String(number).padStart(3, '0')}`,
  );
  await writeFiles(
    folder.path,
    Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, skillText(name)])),
  );
  const { endpoint, key } = at('demo/library');
  const page = async (member: 'skills' | 'resources', cursor?: string) => {
    const params = cursor === undefined ? {} : { cursor };
    const { text } = await mcpCall(endpoint, { key, body: rpc(`${member}/list`, params) });
    const { result } = listAnswer.parse(JSON.parse(text));
    return { listed: uris(result[member] ?? []), next: result.nextCursor };
  };
  const pages = async (member: 'skills' | 'resources') => {
    const all = [await page(member)];
    for (let next = all[0]?.next; next !== undefined; next = all.at(-1)?.next) {
      all.push(await page(member, next));
    }
    return all.map(({ listed }) => listed);
  };
  await vi.waitFor(async () => expect((await page('skills')).listed).toHaveLength(100), patient);
  const lists = [await pages('skills'), await pages('resources')];
  for (const name of names) await rm(join(folder.path, name), { recursive: true });

  for (const list of lists) {
    const all = list.flat();
    expect(list).toHaveLength(3);
    expect(all).toHaveLength(new Set(all).size);
    for (const name of names) expect(all).toContain(`skill://${name}/SKILL.md`);
    expect(all.at(-1)).toBe('skill://reading-the-library/SKILL.md');
  }
});
