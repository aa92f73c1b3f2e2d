/** Skills of each kind of upstream, for callers of either era: through an agent, and where the eras differ. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import {
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { afterAll, expect, test, vi } from 'vitest';

import { gatewayUnderTest } from '#support/gateway-under-test';
import { mcpCall, modern, rpc } from '#support/mcp-call';
import { legacyClient, modernClient } from '#support/mcp-clients';
import { mcpListening } from '#support/mcp-listening';
import { runningAgent } from '#support/running-agent';
import { skillText, writeFiles } from '#support/skill-text';
import { temporaryFolder } from '#support/temporary-folder';
import { legacyStatefulUpstream } from '#support/upstreams/legacy-stateful-upstream';
import { legacyStatelessUpstream } from '#support/upstreams/legacy-stateless-upstream';
import { modernOnlyUpstream } from '#support/upstreams/modern-only-upstream';
import { patient } from '#support/patient';

const everything = join(
  import.meta.dirname,
  '../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
);
await using made = new AsyncDisposableStack();
const folder = made.use(await temporaryFolder());
await writeFiles(folder.path, {
  'orders/SKILL.md': skillText('orders', 'How to look up orders.'),
  'orders/notes.md': 'ask Erin',
});
const sessions = await legacyStatefulUpstream();
made.defer(() => sessions.close());
const stateless = await legacyStatelessUpstream();
made.defer(() => stateless.close());
const modernOnly = await modernOnlyUpstream();
made.defer(() => modernOnly.close());

const behindAgent = {
  everything: { command: process.execPath, args: [everything] },
  far: { url: sessions.url },
  'far-modern': { url: modernOnly.url },
};
const served = [...Object.keys(behindAgent), 'sessions', 'stateless', 'fixture'];
const gateway = made.use(
  await gatewayUnderTest({
    upstreamUrl: modernOnly.url,
    start: served.flatMap((name) => ['--skills', `acme/${name}=${folder.path}`]),
  }),
);
const agent = await gateway.command('agent', 'create', 'acme/berlin');
for (const name of Object.keys(behindAgent)) {
  await gateway.command('server', 'create', `acme/${name}`, '--agent', 'berlin');
}
await gateway.command('server', 'create', 'acme/sessions', '--http-url', sessions.url);
await gateway.command('server', 'create', 'acme/stateless', '--http-url', stateless.url);
made.use(await runningAgent(gateway.base, String(agent['key']), behindAgent));
const keys = new Map<string, string>();
for (const name of served) keys.set(name, (await gateway.newKey(`acme/${name}`)).key);
const owned = made.move();
afterAll(() => owned.disposeAsync());

const manifest = 'skill://orders/SKILL.md';
const greeting = 'memo://greeting';
const eras = { older: legacyClient, modern: modernClient } as const;
const own = { fixture: greeting, sessions: greeting, stateless: greeting, far: greeting } as const;
const cases = served.flatMap((name) =>
  (['older', 'modern'] as const).map((era) => ({ name, era })),
);
const connected = (name: string, era: keyof typeof eras) =>
  eras[era](`${gateway.base}/mcp/acme/${name}`, keys.get(name) ?? '');
const uris = (resources: readonly { uri: string }[]) => resources.map(({ uri }) => uri);

test.for(cases)(
  'skills: a $era client of $name gets them beside the upstream’s own resources',
  async (at) => {
    await using client = await connected(at.name, at.era);
    const { resources } = await client.listResources();
    const { resourceTemplates } = await client.listResourceTemplates();
    const theirs = uris(resources).find((uri) => !uri.startsWith('skill:'));
    const skill = await client.readResource({ uri: manifest });
    const notes = await client.readResource({ uri: 'skill://orders/notes.md' });

    expect(client.getServerCapabilities()).toMatchObject({
      tools: {},
      resources: { listChanged: true, subscribe: true },
      extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true } },
    });
    expect(uris(resources)[0]).toBe(manifest);
    expect(uris(resources)).toHaveLength(new Set(uris(resources)).size);
    expect(theirs).toBe(Object.hasOwn(own, at.name) ? greeting : theirs);
    expect(theirs).toBeDefined();
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toContain('skill://{+path}');
    expect(skill.contents).toMatchObject([{ uri: manifest, mimeType: 'text/markdown' }]);
    expect(notes.contents).toMatchObject([{ text: 'ask Erin' }]);
    expect((await client.readResource({ uri: theirs ?? '' })).contents).toHaveLength(1);
    expect((await client.listTools()).tools.length).toBeGreaterThan(0);
  },
);

test.for(cases)(
  'skills: the extension’s methods answer a $era caller of $name',
  async ({ name, era }) => {
    const endpoint = `${gateway.base}/mcp/acme/${name}`;
    const key = keys.get(name) ?? '';
    const ask = (method: string, params: Record<string, unknown> = {}) =>
      mcpCall(endpoint, {
        key,
        ...(era === 'modern' ? modern(method, params) : { body: rpc(method, params) }),
      });
    const [listed, got, folderRead, missing] = [
      await ask('skills/list'),
      await ask('skills/get', { uri: manifest }),
      await ask('resources/directory/read', { uri: 'skill://orders' }),
      await ask('resources/read', { uri: 'skill://nowhere/SKILL.md' }),
    ];

    expect(listed.text).toContain(manifest);
    expect(got.text).toMatch(/"digest":"sha256:[0-9a-f]{64}"/);
    expect(folderRead.text).toContain('"uri":"skill://orders/notes.md"');
    expect([-32_602, -32_002]).toContain(missing.errorCode);
  },
);

/** Adds a skill and changes another one, waits for `isHeard`, and removes the added skill. */
async function changed(name: string, isHeard: (path: string) => Promise<void>) {
  const path = `new-${name}`;
  await writeFiles(folder.path, {
    [`${path}/SKILL.md`]: skillText(path),
    'orders/SKILL.md': skillText('orders', `Orders, for ${name}.`),
  });
  await isHeard(`skill://${path}/SKILL.md`);
  await rm(join(folder.path, path), { recursive: true });
}

test.for(served)('skills: a legacy session at %s is notified of changes', async (name) => {
  await using client = await legacyClient(`${gateway.base}/mcp/acme/${name}`, keys.get(name) ?? '');
  const lists = vi.fn();
  const updates = vi.fn();
  client.setNotificationHandler(ResourceListChangedNotificationSchema, lists);
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) =>
    updates(params.uri),
  );
  await client.subscribeResource({ uri: manifest });

  await changed(name, async (added) => {
    await vi.waitFor(() => expect(lists).toHaveBeenCalled(), patient);
    await vi.waitFor(() => expect(updates).toHaveBeenCalledWith(manifest), patient);
    expect(uris((await client.listResources()).resources)).toContain(added);
  });
});

test.for(served)('skills: a modern subscription at %s is notified of changes', async (name) => {
  await using listening = await mcpListening(`${gateway.base}/mcp/acme/${name}`, {
    key: keys.get(name) ?? '',
    notifications: { resourcesListChanged: true, resourceSubscriptions: [manifest] },
  });
  const { heard } = listening;
  const [first = ''] = heard().split('\n\n');

  expect(first).toContain('"resourcesListChanged":true');
  expect(first).toContain(`"resourceSubscriptions":["${manifest}"]`);
  await changed(name, async () => {
    await vi.waitFor(() => expect(heard()).toContain('resources/list_changed'), patient);
    await vi.waitFor(() => expect(heard()).toContain('resources/updated'), patient);
  });
});
