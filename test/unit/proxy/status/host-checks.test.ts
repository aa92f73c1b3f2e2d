import { mkdir, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { assistantCheck } from '#proxy/status/host-checks';
import { temporaryFolder } from '#support/temporary-folder';

test('doctor: an entry of an assistant that starts a missing file is reported with its remedy', async () => {
  await using folder = await temporaryFolder('launches');
  const script = join(folder.path, 'latchkey.js');
  const gone = join(folder.path, 'v22', 'bin');
  const file = join(folder.path, '.cursor', 'mcp.json');
  const node = process.execPath;
  const mcpServers = {
    good: { command: node, args: [script, 'connect', 'good'] },
    foreign: { command: join(gone, 'other'), args: [] },
    script: { command: node, args: [join(gone, 'latchkey.js'), 'connect', 'sales'] },
    node: { command: join(gone, 'node'), args: [script, 'connect', 'node'] },
    blank: {
      command: node,
      args: ['-e', 'import(process.env.LATCHKEY_LAUNCHER)', 'latchkey', 'connect', 'blank'],
      env: { LATCHKEY_LAUNCHER: pathToFileURL(join(gone, 'a b', 'latchkey.js')).href },
    },
    onPath: { command: 'latchkey', args: ['connect', 'onPath'] },
  };
  await mkdir(join(folder.path, '.cursor'));
  await writeFile(script, '');
  await writeFile(file, JSON.stringify({ mcpServers }));
  const readText = (path: string) => (path === file ? readFileSync(path, 'utf8') : undefined);
  const host = { platform: 'linux', home: folder.path, env: {} } as const;
  const findings = await assistantCheck(host, readText).run(new AbortController().signal);

  const where = `Cursor: ${file}`;
  const missing = (key: string, path: string, name: string) => ({
    check: 'assistants',
    state: 'fail',
    what: `${where}: ${key} starts ${join(gone, path)}, which does not exist`,
    hint: `latchkey install cursor ${name}`,
  });
  expect(findings).toEqual([
    { check: 'assistants', state: 'ok', what: where },
    missing('script', 'latchkey.js', 'sales'),
    missing('node', 'node', 'node'),
    missing('blank', 'a b/latchkey.js', 'blank'),
  ]);
});

test.each([
  ['without a connection', '{}', 'latchkey setup URL'],
  [
    'with a connection',
    '{"mcpServers":{"sales":{"url":"https://latchkey.example.com/mcp/acme/sales"}}}',
    'latchkey install ASSISTANT NAME',
  ],
])('doctor: the next step on a computer without assistants, %s', async (_, registry, hint) => {
  const host = { platform: 'linux', home: '/home/dana', env: {} } as const;
  const readText = (path: string) => (path.endsWith('connections.json') ? registry : undefined);
  const findings = await assistantCheck(host, readText).run(new AbortController().signal);

  expect(findings).toMatchObject([{ state: 'warn', hint }]);
});
