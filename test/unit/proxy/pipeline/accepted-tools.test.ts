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

test.each([
  ['its title', { title: 't' }, { title: 'u' }],
  ['a description in its schema', schema('a city'), schema('a city, and the password')],
  ['a type of its output', { outputSchema: { type: 'a' } }, { outputSchema: { type: 'b' } }],
  ['an annotation', { annotations: { title: 'a' } }, { annotations: { title: 'b' } }],
  ['the page that a host shows for it', page('ui://own/page'), page('ui://other/page')],
  ['an icon', { icons: [{ src: 'https://a/' }] }, { icons: [{ src: 'https://b/' }] }],
  ['an unknown member', { unknown: [1, 2] }, { unknown: [2, 1] }],
])('109: tool fingerprint: it changes with the value of %s', (_, before, after) => {
  const [one, other] = [before, after].map((members) => toolFingerprint({ name: 'a', ...members }));

  expect(other).not.toEqual(one);
});

function schema(description: string) {
  return { inputSchema: { type: 'object', properties: { city: { description } } } };
}
function page(resourceUri: string) {
  return { _meta: { ui: { resourceUri } } };
}

/** A watch that compares lists of tools with what a store in memory holds. */
function watching(known: Parameters<typeof memoryAcceptedTools>[0] = new Map()) {
  const clock = fakeClock();
  const warnings: string[] = [];
  const log = jsonLinesLog('warn', (line) => warnings.push(line));
  const store = memoryAcceptedTools(known);
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

test('107: accepted tools: a changed tool is changed even if that cannot be stored, until it is listed as accepted', async () => {
  const { watch, store, see, warnings } = watching();
  const write = store.write.bind(store);
  await see('Echoes.', ['echo', 'other']);
  store.write = () => Promise.reject(new Error('ENOSPC: no space left on device'));
  await see('Sends it away.', ['echo']);
  await see('Echoes.', ['other', 'new']);
  await see('Lies.', ['new']);
  const changed = async () => {
    const names = ['echo', 'other', 'new'];
    const are = await Promise.all(names.map(async (name) => watch.isChanged(name)));
    return names.filter((_, index) => are[index]);
  };

  expect(await changed()).toEqual(['echo', 'new']);
  expect(warnings.join('')).toContain('ENOSPC');
  store.write = write;
  await see('Echoes.', ['echo']);
  expect(await changed()).toEqual(['new']);
  expect([...(await store.read()).keys()]).toEqual(['echo', 'other', 'new']);
});

test('107: accepted tools: what another process stores after a failed write counts', async () => {
  const { watch, store, see } = watching();
  const write = store.write.bind(store);
  await see('Echoes.', ['echo', 'other']);
  store.write = () => Promise.reject(new Error('ENOSPC: no space left on device'));
  await see('Echoes.', ['echo', 'other', 'new']);
  await see('Sends it away.', ['other']);
  const changed = toolFingerprint({ name: 'echo', description: 'Lies.' });
  const known = [...(await store.read())].map(([name, tool]) =>
    name === 'echo'
      ? ([name, { ...tool, seen: changed, changedAt: tool.acceptedAt }] as const)
      : ([name, { ...tool, acceptedAt: tool.acceptedAt + 1 }] as const),
  );
  await write(new Map(known));
  const before = [await watch.isChanged('echo'), await watch.isChanged('other')];
  store.write = write;
  await see('Echoes.', ['new']);

  // One process found a change of `echo`, and a person accepted `other`.
  expect(before).toEqual([true, false]);
  expect([await watch.isChanged('echo'), await watch.isChanged('other')]).toEqual([true, false]);
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

test('110: accepted tools: an unlisted tool is remembered for 30 days after its last list, and when it is listed again', async () => {
  const { store, see, day } = watching();
  await see('One.', ['kept', 'back', 'gone']);
  const known: boolean[] = [];
  for (let count = 1; count < 32; count += 1) {
    await day();
    await see('One.', ['kept']);
    known.push((await store.read()).has('gone'));
  }
  await day();
  const { changed } = await see('Another.', ['back']);

  expect(new Set(known)).toEqual(new Set([true]));
  expect([...(await store.read()).keys()]).toEqual(['kept', 'back']);
  expect(changed).toEqual(['back']);
});

test('110: accepted tools: one of which it is unknown when it was listed is not forgotten', async () => {
  const older = new Map([
    ['older', { accepted: toolFingerprint({ name: 'older' }), acceptedAt: 1 }],
  ]);
  const { store, see, day } = watching(older);
  for (let count = 0; count < 40; count += 1) {
    await day();
    await see('One.', ['kept']);
  }

  expect([...(await store.read()).keys()]).toEqual(['older', 'kept']);
  expect((await see('Another.', ['older'])).changed).toEqual(['older']);
});

test('110: accepted tools: none is forgotten when there was no list, or between the pages of a list', async () => {
  const { store, see, day } = watching();
  await see('One.', ['first']);
  await see('One.', ['second']);
  await see('One.', ['third']);
  for (let count = 0; count < 100; count += 1) await day();
  await see('One.', ['first']);
  await see('One.', ['second']);

  expect((await see('Another.', ['third'])).changed).toEqual(['third']);
  expect((await store.read()).size).toBe(3);
});
