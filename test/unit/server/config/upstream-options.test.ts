import { expect, test } from 'vitest';

import { readStdioServers } from '#server/config/upstream-options';

const read = (value: unknown) => readStdioServers(JSON.stringify(value), 'stdio.json');

test('a file of commands is read with the defaults for what it omits', () => {
  const commands = read({ servers: { 'acme/files': { command: 'npx' } } });

  expect([...commands]).toEqual([['acme/files', { command: 'npx', args: [], env: {} }]]);
});

test.each([
  ['no servers', {}, 'servers'],
  ['no command', { servers: { 'acme/files': {} } }, 'servers.acme/files.command'],
  ['an empty command', { servers: { 'acme/files': { command: '' } } }, 'command'],
  ['a path that is none', { servers: { files: { command: 'npx' } } }, 'ORGANIZATION/SERVER'],
  ['args as a string', { servers: { 'a/b': { command: 'x', args: 'y' } } }, 'args'],
  ['an unknown member', { servers: { 'a/b': { command: 'x', shell: true } } }, 'shell'],
])('%s is refused with its position', (_, value, words) => {
  expect(() => read(value)).toThrow(words);
});

test('text that is not JSON is refused with the name of the file', () => {
  expect(() => readStdioServers('{', 'stdio.json')).toThrow(
    '--stdio-servers stdio.json: it is not JSON',
  );
});
