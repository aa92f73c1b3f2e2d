import {
  Client as ModernClient,
  StreamableHTTPClientTransport as ModernTransport,
} from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDemoLibrary, type DemoLibrary } from '#server/upstreams/demo/demo-library';
import { fetchHandle } from '#support/fetch-handle';
import { recordingServer, type RecordingServer } from '#support/recording-server';
import { temporaryFolder } from '#support/temporary-folder';

const folder = await temporaryFolder();
let library: DemoLibrary;
let front: RecordingServer;

beforeAll(async () => {
  library = openDemoLibrary({ dataDir: folder.path, nodePath: process.execPath });
  front = await recordingServer(fetchHandle(library));
});
afterAll(async () => {
  await front.close();
  await library.close();
  await folder[Symbol.asyncDispose]();
});

async function old(): Promise<OldClient> {
  const client = new OldClient({ name: 'old', version: '1' });
  await client.connect(new OldTransport(new URL(front.url)));
  return client;
}

async function modern(): Promise<ModernClient> {
  const client = new ModernClient(
    { name: 'modern', version: '1' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  );
  await client.connect(new ModernTransport(new URL(front.url)));
  return client;
}

test.each([
  ['an old client', old],
  ['a modern client', modern],
])('%s lists the tools, calls them and reads the skill', async (_, connect) => {
  const client = await connect();
  const server = client.getServerVersion();
  const { tools } = await client.listTools();
  const tables = await client.callTool({ name: 'list_tables', arguments: {} });
  const loans = await client.callTool({ name: 'describe_table', arguments: { table: 'loans' } });
  const sql = 'select count(*) as books from books';
  const rows = await client.callTool({ name: 'query', arguments: { sql } });
  const { resources } = await client.listResources();
  const skill = await client.readResource({ uri: 'skill://reading-the-library/SKILL.md' });
  await client.close();

  expect(server).toMatchObject({ name: 'library', title: 'Library (demo)' });
  expect(tools.map(({ name }) => name)).toEqual(['list_tables', 'describe_table', 'query']);
  expect(tools.every((tool) => tool.annotations?.readOnlyHint && tool.outputSchema)).toBe(true);
  expect(tables.structuredContent).toMatchObject({
    tables: expect.arrayContaining([expect.objectContaining({ name: 'books', rowCount: 800 })]),
  });
  expect(loans.structuredContent).toMatchObject({
    foreignKeys: [
      { column: 'member_id', references: 'members.id' },
      { column: 'copy_id', references: 'copies.id' },
    ],
  });
  expect(rows).toMatchObject({
    content: [{ type: 'text', text: '| books |\n| --- |\n| 800 |\n\n1 row.' }],
    structuredContent: { columns: ['books'], rows: [[800]], rowCount: 1, truncated: false },
  });
  expect(resources).toMatchObject([{ uri: 'skill://reading-the-library/SKILL.md' }]);
  expect(skill.contents).toMatchObject([
    { text: expect.stringContaining('# Reading the library') },
  ]);
});

test('the skill follows the skills extension', async () => {
  const client = await modern();
  const skills = new SkillsClient(client);
  const { supported } = skills;
  const { skills: listed } = await skills.list();
  await client.close();

  expect(supported).toBe(true);
  expect(listed.map(({ frontmatter }) => frontmatter.name)).toEqual(['reading-the-library']);
});

test.each([
  ['describe_table', { table: 'nowhere' }, /no table "nowhere".*branches, authors/],
  ['query', { sql: 'drop table books' }, /read-only/],
  ['query', { sql: 'select 1', limit: 1001 }, /limit/],
])('%s of %o is a tool error that says what to do', async (name, args, text) => {
  const client = await old();
  const result = await client.callTool({ name, arguments: args });
  await client.close();

  expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringMatching(text) }] });
});

test('the examples of the skill run', async () => {
  const client = await old();
  const { contents } = await client.readResource({ uri: 'skill://reading-the-library/SKILL.md' });
  const [first] = contents;
  const examples = first && 'text' in first ? first.text.split('## Examples')[1] : undefined;
  const statements = examples?.match(/(?<=\n\n)(?: {4}.*\n)+/g) ?? [];
  const results = await Promise.all(
    statements.map((sql) => client.callTool({ name: 'query', arguments: { sql } })),
  );
  await client.close();

  expect(results.map(({ isError, structuredContent }) => [isError, structuredContent])).toEqual([
    [undefined, expect.objectContaining({ rowCount: 10 })],
    [undefined, expect.objectContaining({ rowCount: 5 })],
  ]);
});
