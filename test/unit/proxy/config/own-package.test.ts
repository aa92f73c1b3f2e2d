import { expect, test } from 'vitest';
import { isLaunch } from '#proxy/config/launch-entry';
import { npxHint } from '#proxy/config/own-package';

const url = 'https://cloud.example.com/download/latchkey-0.1.0.tgz?v=0123456789abcdef';
const folder = '/home/dana/.npm/_npx/77cfb51396a99902';
const launcher = {
  node: '/usr/bin/node',
  script: `${folder}/node_modules/latchkey/bin/latchkey.js`,
};

function hint(manifest: string | undefined): string | undefined {
  const texts = new Map([[`${folder}/package.json`, manifest]]);
  return npxHint(launcher, { readText: (path) => texts.get(path) });
}

test('install hint: for npx it names the URL that npx was given', () => {
  expect(hint(JSON.stringify({ dependencies: { latchkey: url } }))).toBe(
    `npx may throw this program away; npm install --global "${url}" keeps it`,
  );
});

test.each([
  ['a version of a registry', JSON.stringify({ dependencies: { latchkey: '^0.1.0' } })],
  [
    'a URL that is more than one word',
    JSON.stringify({ dependencies: { latchkey: `${url}" ; x "` } }),
  ],
  [
    'a URL with an escape sequence',
    JSON.stringify({ dependencies: { latchkey: `${url}\u001b[2J` } }),
  ],
  ['another package', JSON.stringify({ dependencies: { other: url } })],
  ['no JSON', '{'],
  ['no file', undefined],
])('install hint: %s is not repeated as a command to type', (_, manifest) => {
  expect(hint(manifest)).toBe(
    'npx may throw this program away; install it from the file or URL that you started it from',
  );
});

test('install hint: an installed program has none', () => {
  const readText = () => undefined;
  const script = '/usr/lib/node_modules/latchkey/bin/latchkey.js';

  expect(npxHint({ node: '/usr/bin/node', script }, { readText })).toBeUndefined();
  expect(npxHint({ program: '/opt/latchkey' }, { readText })).toBeUndefined();
});

test.each([
  [url, true],
  ['https://cloud.example.com/download/latchkey-1.0.0-rc.1.tgz', true],
  ['https://cloud.example.com/download/latchkey-server-0.1.0.tgz', false],
  ['https://cloud.example.com/download/other-0.1.0.tgz', false],
])('assistant entry: one by which npx starts %s was created by Latchkey: %s', (source, ours) => {
  const entry = { command: 'npx', args: ['-y', '--prefer-offline', source, 'sales'] };

  expect(isLaunch(entry, 'sales')).toBe(ours);
});
