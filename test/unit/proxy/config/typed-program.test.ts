import { expect, test } from 'vitest';
import { allCommands } from '#proxy/cli/commands';
import { asTyped, npxHint, typedProgram } from '#proxy/config/typed-program';

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

test('install hint: for npx, it names the URL of the package', () => {
  expect(hint(JSON.stringify({ dependencies: { latchkey: url } }))).toBe(
    `npx may delete this program; npm install --global "${url}" installs it permanently`,
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
  [
    'a URL with a password',
    JSON.stringify({ dependencies: { latchkey: 'https://dana:a-token@cloud.example.com/l.tgz' } }),
  ],
  ['another package', JSON.stringify({ dependencies: { other: url } })],
  ['no JSON', '{'],
  ['no file', undefined],
])('install hint: %s is not repeated as a command to type', (_, manifest) => {
  expect(hint(manifest)).toBe(
    'npx may delete this program; install Latchkey from the file or URL that you started it from',
  );
});

test('install hint: there is none for an installed program', () => {
  const readText = () => undefined;
  const script = '/usr/lib/node_modules/latchkey/bin/latchkey.js';

  expect(npxHint({ node: '/usr/bin/node', script }, { readText })).toBeUndefined();
  expect(npxHint({ program: '/opt/latchkey' }, { readText })).toBeUndefined();
});

const fromNpx = (manifest: object | undefined) =>
  typedProgram({ launcher, env: {}, platform: 'linux' }, '', {
    readText: () => JSON.stringify(manifest),
  });

test.each([
  ['the URL of a server', { dependencies: { latchkey: url } }, `npx -y "${url}"`],
  [
    'a file, by its whole path',
    { dependencies: { latchkey: 'file:../../../Downloads/latchkey-0.1.0.tgz' } },
    'npx -y "/home/dana/Downloads/latchkey-0.1.0.tgz"',
  ],
  [
    'a version of a registry, which is not fetched again',
    { dependencies: { latchkey: '^0.1.0' }, _npx: { packages: ['latchkey@0.1.0'] } },
    'npx --no latchkey@0.1.0',
  ],
  ['the same by an older npx', { dependencies: { latchkey: '^0.1.0' } }, 'npx --no latchkey'],
  ['a file with an unusual name', { dependencies: { latchkey: 'file:../$(id).tgz' } }, 'latchkey'],
  ['a URL that is more than one word', { dependencies: { latchkey: `${url}" ; x "` } }, 'latchkey'],
  ...['!', '$', '`', '\\', '"', ' '].map((character): [string, object, string] => [
    `a URL with ${character}, on which a shell acts`,
    { dependencies: { latchkey: `${url}${character}x` } },
    'latchkey',
  ]),
  [
    'a URL with a password',
    { dependencies: { latchkey: 'https://dana:a-token@cloud.example.com/latchkey.tgz' } },
    'latchkey',
  ],
  [
    'a URL with a token as the user',
    { dependencies: { latchkey: 'https://a-token@cloud.example.com/latchkey.tgz' } },
    'latchkey',
  ],
  ['no package', {}, 'latchkey'],
  ['no manifest', undefined, 'latchkey'],
])('typed program: npx runs %s', (_, manifest, program) => {
  expect(fromNpx(manifest)).toBe(program);
});

const npx = { npm_lifecycle_event: 'npx', npm_config_local_prefix: '/src/project' };

test.each([
  [npx, '/src/project/node_modules/.bin/latchkey', 'npx --no latchkey'],
  [npx, '/usr/local/bin/latchkey', 'latchkey'],
  [npx, '/src/project/node_modules-of-another/.bin/latchkey', 'latchkey'],
  [{ ...npx, npm_lifecycle_event: 'start' }, '/src/project/node_modules/.bin/latchkey', 'latchkey'],
  [{}, '/src/project/node_modules/.bin/latchkey', 'latchkey'],
])('typed program: with %o, started as %s', (env, startedAs, program) => {
  const script = '/src/project/proxy/bin/latchkey.js';
  const host = { launcher: { node: '/usr/bin/node', script }, env, platform: 'linux' as const };

  expect(typedProgram(host, startedAs, { readText: () => undefined })).toBe(program);
});

test('typed program: on Windows, npx starts the script itself', () => {
  const script = String.raw`C:\src\project\node_modules\latchkey\bin\latchkey.js`;
  const env = { ...npx, npm_config_local_prefix: String.raw`C:\src\project` };
  const host = { launcher: { node: 'node.exe', script }, env, platform: 'win32' as const };

  expect(typedProgram(host, script, { readText: () => undefined })).toBe('npx --no latchkey');
});

test('typed program: a single executable is called by its name', () => {
  const host = { launcher: { program: '/opt/latchkey' }, env: npx, platform: 'linux' as const };

  expect(typedProgram(host, '/opt/latchkey', { readText: () => undefined })).toBe('latchkey');
});

test.each([
  ['hint: latchkey login acme', 'hint: npx --no latchkey login acme'],
  [
    'run latchkey remove a, then latchkey setup URL',
    'run npx --no latchkey remove a, then npx --no latchkey setup URL',
  ],
  ['did you mean latchkey --version?', 'did you mean npx --no -- latchkey --version?'],
  ['latchkey: latchkey tools needs NAME|URL', 'latchkey: latchkey tools needs NAME|URL'],
  ['latchkey: x; run latchkey login x', 'latchkey: x; run npx --no latchkey login x'],
  ['next: systemctl stop latchkey-agent', 'next: systemctl stop latchkey-agent'],
  ['next: /opt/latchkey agent', 'next: /opt/latchkey agent'],
  ['remove ~/.config/latchkey and start again', 'remove ~/.config/latchkey and start again'],
  ['hint: latchkey login latchkey x', 'hint: npx --no latchkey login latchkey x'],
  ['latchkey login-page x is offline', 'latchkey login-page x is offline'],
])('a text for people: %j', (text, typed) => {
  expect(asTyped(text, 'npx --no latchkey')).toBe(typed);
  expect(asTyped(text, 'latchkey')).toBe(text);
});

test.each([
  'npx --no latchkey',
  'npx --no latchkey@0.1.0',
  `npx -y "${url}"`,
  'npx -y "/home/dana/my latchkey setup files/latchkey-0.1.0.tgz"',
  'latchkey',
])('a text for people who type %s stays as it is once it is typed', (program) => {
  const text = 'run latchkey remove a, then latchkey setup URL, or latchkey --help';
  const typed = asTyped(text, program);

  expect(typed).toContain(`run ${program} remove a, then ${program} setup URL`);
  expect(asTyped(typed, program)).toBe(typed);
});

test('a text for people: every command is typed', async () => {
  const names = (await allCommands()).flatMap(({ name, hidden }) => (hidden ? [] : [name]));

  for (const name of [...names, 'help'])
    expect(asTyped(`run latchkey ${name}`, 'npx --no latchkey')).toBe(
      `run npx --no latchkey ${name}`,
    );
});
