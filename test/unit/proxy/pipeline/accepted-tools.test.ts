import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fileAcceptedTools, toolFingerprint } from '#proxy/pipeline/accepted-tools';
import { temporaryFolder } from '#support/temporary-folder';

const url = 'https://cloud.example.com/mcp/acme/sales';
const accepted = toolFingerprint({ name: 'echo', description: 'says it again' });
const seen = toolFingerprint({ name: 'echo', description: 'sends it away' });

test('accepted tools: they are there for the next process, in a file of their owner alone', async () => {
  await using folder = await temporaryFolder();
  const directory = join(folder.path, 'tools');
  const tools = new Map([
    ['echo', { accepted, acceptedAt: 1, seen, changedAt: 2 }],
    ['__proto__', { accepted, acceptedAt: 1 }],
  ]);

  await fileAcceptedTools(directory, url).write(tools);
  const [file = ''] = await readdir(directory);

  expect(await fileAcceptedTools(directory, url).read()).toEqual(tools);
  expect(await fileAcceptedTools(directory, `${url}2`).read()).toEqual(new Map());
  expect((await stat(join(directory, file))).mode & 0o777).toBe(0o600);
  expect(await readFile(join(directory, file), 'utf8')).not.toContain('says it again');
});

test.each(['', '{', '[]', '{"tools":{"echo":{}}}', 'null'])(
  'accepted tools: a damaged file (%s) is an error, not an empty list',
  async (text) => {
    await using folder = await temporaryFolder();
    const store = fileAcceptedTools(folder.path, url);
    await store.write(new Map());
    const [file = ''] = await readdir(folder.path);
    await writeFile(join(folder.path, file), text);

    await expect(store.read()).rejects.toThrow('is damaged');
  },
);

test('tool digest: the order of members does not change it, and every part does', () => {
  const tool = {
    description: 'd',
    inputSchema: { type: 'object', properties: { a: {}, b: {} } },
    annotations: { readOnlyHint: true },
  };
  const turned = {
    annotations: { readOnlyHint: true },
    inputSchema: { properties: { b: {}, a: {} }, type: 'object' },
    description: 'd',
  };

  expect(toolFingerprint(turned)).toEqual(toolFingerprint(tool));
  for (const other of [
    { ...tool, title: 't' },
    { ...tool, inputSchema: { type: 'object', required: ['a', 'b'] } },
    { ...tool, outputSchema: {} },
    { ...tool, annotations: {} },
  ])
    expect(toolFingerprint(other)).not.toEqual(toolFingerprint(tool));
});
