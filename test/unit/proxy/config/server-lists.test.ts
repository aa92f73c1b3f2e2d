import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { keepServers, serverLists, serversOf } from '#proxy/config/server-lists';
import { temporaryFolder } from '#support/temporary-folder';

const list = 'https://latchkey.example.com/api/my/servers';
const other = 'https://other.example.com/api/my/servers';

test('server lists: what is stored is read again, the newest list first', async () => {
  await using folder = await temporaryFolder('lists');
  await keepServers(folder.path, { list: other, servers: ['https://other.example.com/mcp/a/b'] });
  await keepServers(folder.path, { list, servers: ['a', 'b', 'a'] });

  expect((await serverLists(folder.path)).map((one) => one.list)).toEqual([list, other]);
  expect(await serversOf(folder.path, list)).toEqual(['a', 'b']);
});

test('server lists: a list without servers is forgotten', async () => {
  await using folder = await temporaryFolder('lists');
  await keepServers(folder.path, { list, servers: ['a'] });
  await keepServers(folder.path, { list, servers: [] });

  expect(await serversOf(folder.path, list)).toBeUndefined();
});

test.each(['', '[]', '{"lists":1}', '{"lists":[{"list":"x","servers":[]},{"list":1}]}', 'no JSON'])(
  'server lists: a file of another program (%j) contains none',
  async (text) => {
    await using folder = await temporaryFolder('lists');
    writeFileSync(join(folder.path, 'server-lists.json'), text);

    expect(await serverLists(folder.path)).toEqual([]);
  },
);

test('server lists: the file has bounds', async () => {
  await using folder = await temporaryFolder('lists');
  const many = Array.from({ length: 60 }, (_, at) => `s${at}`);
  for (let at = 0; at < 25; at += 1) {
    await keepServers(folder.path, { list: `https://h${at}.example.com/x`, servers: many });
  }
  const text = readFileSync(join(folder.path, 'server-lists.json'), 'utf8');

  expect(JSON.parse(text).lists).toHaveLength(20);
  expect(JSON.parse(text).lists[0].servers).toHaveLength(50);
});
