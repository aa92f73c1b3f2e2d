import { expect, test } from 'vitest';
import { z } from 'zod';

import {
  assistantFiles,
  type AssistantFileName,
  type Connection,
  linksOf,
} from '#server/deployment/assistant-files';
import { registryName, registryPage } from '#server/deployment/registry-entries';

const base = 'https://latchkey.example.com';
const plan = (connection: Connection) => ({
  base,
  registryUrl: `${base}/registry/acme`,
  organization: 'acme',
  connection,
  servers: [
    { name: 'sales', title: 'Sales & orders' },
    { name: 'wiki-2', title: '' },
  ],
});
const url = `${base}/mcp/acme/sales`;
const written = (file: AssistantFileName, connection: Connection = 'direct') =>
  assistantFiles[file].write(plan(connection));

/** The forms of the files as the vendors document them, without any other member. */
const remote = z.strictObject({ type: z.literal('http'), url: z.url() });
const started = z.strictObject({ command: z.string(), args: z.array(z.string()) });
const entries = (entry: z.ZodType) => z.record(z.string().regex(/^[\w-]+$/), entry);
const forms = {
  'claude-code': z.strictObject({ mcpServers: entries(z.union([remote, started])) }),
  'claude-code-lists': z.strictObject({
    allowManagedMcpServersOnly: z.boolean(),
    allowedMcpServers: z.array(
      z.union([
        z.strictObject({ serverUrl: z.string() }),
        z.strictObject({ serverCommand: z.array(z.string()).min(1) }),
      ]),
    ),
    deniedMcpServers: z.array(z.never()),
  }),
  vscode: z.strictObject({
    servers: entries(z.union([remote, started.extend({ type: z.literal('stdio') })])),
  }),
  'vscode-policy': z.strictObject({
    ChatMCP: z.enum(['allowed', 'registryOnly', 'off']),
    McpGalleryServiceUrl: z.url(),
  }),
  cursor: z.strictObject({ mcpServers: entries(z.union([remote, started])) }),
} as const;

test.each([
  ['claude-code', 'mcpServers'],
  ['vscode', 'servers'],
  ['cursor', 'mcpServers'],
] as const)('%s: has the documented form, for both kinds of connection', (file, member) => {
  const direct = JSON.parse(written(file, 'direct'));
  const latchkey = JSON.parse(written(file, 'latchkey'));

  expect(forms[file].parse(direct)).toEqual(direct);
  expect(forms[file].parse(latchkey)).toEqual(latchkey);
  expect(direct[member].sales).toEqual({ type: 'http', url });
  expect(latchkey[member].sales).toMatchObject({ command: 'latchkey', args: [url] });
  expect(Object.keys(direct[member])).toEqual(['sales', 'wiki-2']);
});

test('claude-code-lists: allows the servers of this organization and nothing else', () => {
  const lists = forms['claude-code-lists'].parse(JSON.parse(written('claude-code-lists')));

  expect(lists.allowedMcpServers).toEqual([
    { serverUrl: `${base}/mcp/acme/*` },
    { serverCommand: ['latchkey', url] },
    { serverCommand: ['latchkey', `${base}/mcp/acme/wiki-2`] },
  ]);
});

test('vscode-policy: the same policies for all systems', () => {
  const policy = forms['vscode-policy'].parse(JSON.parse(written('vscode-policy')));
  const registry = written('vscode-policy-windows');
  const profile = written('vscode-policy-macos');

  expect(policy).toEqual({
    ChatMCP: 'registryOnly',
    McpGalleryServiceUrl: `${base}/registry/acme`,
  });
  expect(registry).toContain(
    '[HKEY_LOCAL_MACHINE\\SOFTWARE\\Policies\\Microsoft\\VSCode]\r\n"ChatMCP"="registryOnly"\r\n"McpGalleryServiceUrl"="https://latchkey.example.com/registry/acme"\r\n',
  );
  expect(profile).toMatch(/<key>ChatMCP<\/key>\s*<string>registryOnly<\/string>/);
  expect(profile).toMatch(/<string>[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}<\/string>/);
  expect(written('vscode-policy-macos')).toBe(profile);
});

test('codex: a table for each server', () => {
  expect(written('codex')).toBe(
    `[mcp_servers.sales]\nurl = "${url}"\n\n[mcp_servers.wiki-2]\nurl = "${base}/mcp/acme/wiki-2"\n`,
  );
  expect(written('codex', 'latchkey')).toContain(
    `[mcp_servers.sales]\ncommand = "latchkey"\nargs = ["${url}"]\n`,
  );
});

test('links: each carries the entry of its server', () => {
  const { cursor, vscode, claudeCode, bundle } = linksOf(plan('direct'), {
    name: 'sales',
    title: '',
  });
  const { searchParams } = new URL(cursor);
  const config = Buffer.from(searchParams.get('config') ?? '', 'base64').toString();

  expect(cursor).toMatch(/^cursor:\/\/anysphere\.cursor-deeplink\/mcp\/install\?/);
  expect(searchParams.get('name')).toBe('sales');
  expect(JSON.parse(config)).toEqual({ type: 'http', url });
  expect(JSON.parse(decodeURIComponent(vscode.replace('vscode:mcp/install?', '')))).toEqual({
    name: 'sales',
    type: 'http',
    url,
  });
  expect(claudeCode).toBe(`claude mcp add --transport http sales ${url}`);
  expect(bundle).toBe(`${base}/download/acme/sales.mcpb`);
});

test('files: no server gives files without one, which are still well-formed', () => {
  const empty = { ...plan('direct'), servers: [] };

  expect(JSON.parse(assistantFiles['claude-code'].write(empty))).toEqual({ mcpServers: {} });
  expect(assistantFiles.codex.write(empty)).toBe('');
});

test.each([
  ['https://latchkey.example.com', 'com.example.latchkey/acme.sales'],
  ['http://localhost:8787', 'localhost/acme.sales'],
  ['http://127.0.0.1:8787', '127.0.0.1/acme.sales'],
  ['http://[::1]:8787', '1/acme.sales'],
])('registry: a server at %s is called %s', (at, name) => {
  expect(registryName(at, { organization: 'acme', name: 'sales' })).toBe(name);
});

test('registry: names are never longer than allowed', () => {
  const label = 'a'.repeat(63);
  const long = `https://${label}.${label}.${label}.example`;

  expect(registryName(long, { organization: label, name: label }).length).toBeLessThanOrEqual(200);
});

test('registry: pages follow each other without a gap, also when a server goes between them', () => {
  const server = (name: string) => ({
    organization: 'acme',
    name,
    title: '',
    description: 'd',
    version: 1,
    publishedAt: 1,
    updatedAt: 1,
  });
  const all = ['a', 'b', 'c', 'd'].map(server);
  const first = registryPage(base, all, { limit: 2 });
  const { nextCursor: cursor } = first.metadata;
  const rest = registryPage(
    base,
    all.filter(({ name }) => name !== 'b'),
    { limit: 2, cursor },
  );

  expect(first.metadata).toEqual({ count: 2, nextCursor: 'b' });
  expect(rest.servers.map((one) => one.server.name)).toEqual([
    'com.example.latchkey/acme.c',
    'com.example.latchkey/acme.d',
  ]);
  expect(rest.metadata).toEqual({ count: 2 });
});
