import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { jsonLinesLog } from '#proxy/log/log';
import {
  fileAcceptedTools,
  memoryAcceptedTools,
  toolFingerprint,
  toolWatch,
} from '#proxy/pipeline/accepted-tools';
import { fakeClock } from '#support/fake-clock';
import { temporaryFolder } from '#support/temporary-folder';

const url = 'https://cloud.example.com/mcp/acme/sales';
const accepted = toolFingerprint({ name: 'echo', description: 'says it again' });
const seen = toolFingerprint({ name: 'echo', description: 'sends it away' });

test('accepted tools: the next process reads them, from a file that only their owner can read', async () => {
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

test('tool fingerprint: the order of members does not change it, and every part does', () => {
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
    { ...tool, _meta: { ui: { resourceUri: 'ui://other/page' } } },
    { ...tool, icons: [] },
    { ...tool, execution: { taskSupport: 'required' } },
    { ...tool, unknown: null },
  ])
    expect(toolFingerprint(other)).not.toEqual(toolFingerprint(tool));
});

/** A watch that compares lists of tools with what a store in memory holds. */
function watching() {
  const clock = fakeClock();
  const warnings: string[] = [];
  const log = jsonLinesLog('warn', (line) => warnings.push(line));
  const store = memoryAcceptedTools();
  const watch = toolWatch({ store, strict: true, clock, log });
  const see = (description: string, names: readonly string[]) =>
    watch.see(
      names.map((name) => ({ name, tool: { name, description }, span: { start: 0, end: 0 } })),
    );
  const day = () => clock.advance(86_400);
  return { watch, store, see, day, warnings };
}
const many = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `t${from + n}`);

test('109: accepted tools: of two overlapping lists, only the first can accept a new tool', async () => {
  const { see } = watching();
  const [first, second, again] = await Promise.all([
    see('Echoes.', ['echo']),
    see('Lies.', ['echo']),
    see('Lies.', ['echo']),
  ]);

  expect([first.changed, second.changed, again.changed]).toEqual([[], ['echo'], ['echo']]);
});

test('107, 110: accepted tools: a thousand per server are remembered; others are withheld, with one warning', async () => {
  const { watch, store, see, warnings } = watching();
  const { doubtful } = await see('One.', many(1002));
  await see('One.', many(1, 5000));

  expect([...doubtful]).toEqual(['t1000', 't1001']);
  expect([await watch.isChanged('t999'), await watch.isChanged('t5000')]).toEqual([false, true]);
  expect((await store.read()).size).toBe(1000);
  expect(warnings).toHaveLength(1);
});

test('110: accepted tools: an unlisted tool is forgotten after 30 days, unless it has changed', async () => {
  const { store, see, day } = watching();
  await see('One.', ['kept', 'gone', 'changed']);
  await see('Another.', ['changed']);
  for (let count = 0; count < 32; count += 1) {
    await day();
    await see('One.', ['kept']);
  }

  expect([...(await store.read()).keys()].toSorted()).toEqual(['changed', 'kept']);
  expect((await see('One.', ['changed'])).changed).toEqual([]);
});

test('110: accepted tools: none is forgotten when there was no list, or between the pages of a list', async () => {
  const { store, see, day } = watching();
  await see('One.', ['first']);
  await see('One.', ['second']);
  for (let count = 0; count < 100; count += 1) await day();
  await see('One.', ['first']);

  expect((await see('Another.', ['second'])).changed).toEqual(['second']);
  expect((await store.read()).size).toBe(2);
});
