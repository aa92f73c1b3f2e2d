import { resolve } from 'node:path';

import { describe, expect, test } from 'vitest';
import { unreadable } from '#server/config/named-file';
import { startOptions, variableOf } from '#server/config/option';
import { type Option } from '#server/model/option';
import { misspeltVariables, readOptions } from '#server/config/read-options';
import { UsageError } from '#server/config/usage-error';

const port: Option = { name: 'port', value: 'N', fallback: '8787', doc: '' };
const baseUrl: Option = { name: 'base-url', value: 'URL', doc: '' };
const scope: Option = { name: 'scope', value: 'S', repeated: true, doc: '' };
const json: Option = { name: 'json', doc: '' };
const name: Option = { name: 'name', value: 'N', required: true, doc: '' };
const days: Option = { name: 'days', value: 'DAYS', doc: '' };

const read = (
  argv: string[],
  env: Record<string, string> = {},
  options = [port, baseUrl, scope, json],
) => readOptions(options, argv, env);

describe('the value of an option is', () => {
  test.each<[string, string[], Record<string, string>, string]>([
    ['what was typed', ['--port', '1'], {}, '1'],
    ['what was typed behind an equals sign', ['--port=1'], {}, '1'],
    ['what was typed last', ['--port', '1', '--port', '2'], {}, '2'],
    ['what was typed rather than the variable', ['--port', '1'], { LATCHKEY_PORT: '2' }, '1'],
    ['the variable where nothing was typed', [], { LATCHKEY_PORT: '2' }, '2'],
    ['the fallback where there is neither', [], {}, '8787'],
    ['the fallback where the variable is empty', [], { LATCHKEY_PORT: '' }, '8787'],
  ])('%s', (_, argv, env, value) => {
    expect(read(argv, env).text('port')).toBe(value);
    expect(read(argv, env).must('port')).toBe(value);
  });
});

test('an absent option without a fallback has no value', () => {
  expect(read([]).text('base-url')).toBeUndefined();
  expect(read([]).list('scope')).toEqual([]);
  expect(read([]).flag('json')).toBe(false);
});

test.each([
  ['the option', ['--port', '8787'], {}, true],
  ['its variable', [], { LATCHKEY_PORT: '8787' }, true],
  ['an empty variable', [], { LATCHKEY_PORT: '' }, false],
  ['nobody', [], {}, false],
] as const)('a value is given by %s: %#', (_, argv, env, isGiven) => {
  expect(read([...argv], env).isGiven('port')).toBe(isGiven);
});

test('a repeated option takes one value each time', () => {
  expect(read(['--scope', 'a', '--scope', 'b,c']).list('scope')).toEqual(['a', 'b,c']);
});

test("a repeated option's variable holds values separated by commas or blanks", () => {
  expect(read([], { LATCHKEY_SCOPE: ' a, b\nc,' }).list('scope')).toEqual(['a', 'b', 'c']);
});

test('a variable of an option that is not repeated is one value, blanks and commas included', () => {
  expect(read([], { LATCHKEY_BASE_URL: 'a, b' }).text('base-url')).toBe('a, b');
});

describe('a flag is on when', () => {
  test.each([
    [true, 'it was typed', ['--json'], {}],
    [true, 'its variable is 1', [], { LATCHKEY_JSON: '1' }],
    [true, 'its variable is true', [], { LATCHKEY_JSON: 'true' }],
    [true, 'its variable is yes', [], { LATCHKEY_JSON: 'yes' }],
    [false, 'and off when its variable is 0', [], { LATCHKEY_JSON: '0' }],
    [false, 'and off when its variable is empty', [], { LATCHKEY_JSON: '' }],
  ])('%s: %s', (on, _, argv, env) => {
    expect(read(argv, env).flag('json')).toBe(on);
  });
});

test('arguments that are no options are the positionals, wherever they are', () => {
  expect(read(['acme', '--json', 'sales', '--', '--x']).positionals).toEqual([
    'acme',
    'sales',
    '--x',
  ]);
});

describe('a command line is wrong usage when', () => {
  test.each([
    ['it has an unknown option', ['--color'], "unknown option '--color'"],
    ['an option lacks its value', ['--port'], '--port N has no value'],
    ['a flag has a value', ['--json=1'], "option '--json' does not take an argument"],
  ])('%s', (_, argv, message) => {
    expect(() => read(argv)).toThrow(new UsageError(message));
  });

  test.each([[[]], [['--name', '']]])('a required option is missing or empty: %j', (argv) => {
    expect(() => read(argv, {}, [name])).toThrow(new UsageError('--name N is missing'));
  });
});

test.each([
  [['--color'], "unknown option '--color'", 'latchkey-server key list --help'],
  [['--nmae', 'x'], "unknown option '--nmae'", 'did you mean --name?'],
  [['--nam=x'], "unknown option '--nam'", 'did you mean --name?'],
  [[], '--name N is missing', 'latchkey-server key list --help'],
  [
    ['--name', '-1'],
    '--name has no value, or one that begins with a dash',
    'write such a value after an equals sign: --name=-x',
  ],
  [['--name', 'x', '--days', '-3'], "--days '-3' is negative", 'latchkey-server key list --help'],
])('what is wrong with %j is one line, and what to do another', (argv, message, hint) => {
  const wrong = () => readOptions([name, days], argv, {}, 'latchkey-server key list --help');

  expect(wrong).toThrow(expect.objectContaining({ message, hint }));
});

test('a misspelt variable is found, and a variable of another program is not', () => {
  const env = {
    LATCHKEY_BASEURL: 'https://mcp.acme.example',
    LATCHKEY_BASE_URL: 'https://mcp.acme.example',
    LATCHKEY_PORTT: '1',
    LATCHKEY_SECRET_STORE: 'file',
    LATCHKEY_PROXY: 'http://proxy.acme.example',
    LATCHKEY_LOG_FILE: 'log',
    BASE_URL: 'x',
  };

  expect(misspeltVariables(startOptions, env)).toEqual([
    { variable: 'LATCHKEY_BASEURL', meant: 'LATCHKEY_BASE_URL' },
    { variable: 'LATCHKEY_PORTT', meant: 'LATCHKEY_PORT' },
  ]);
});

test('a required option may come from the environment', () => {
  expect(read([], { LATCHKEY_NAME: 'x' }, [name]).must('name')).toBe('x');
});

test('reading an option that the command does not declare is a bug', () => {
  expect(() => read([]).text('data-dir')).toThrow(TypeError);
});

test('the variable of an option is LATCHKEY_ and its name in capitals', () => {
  expect(variableOf(baseUrl)).toBe('LATCHKEY_BASE_URL');
});

test('a server without options listens on loopback, port 8787, and accepts 4 MiB', () => {
  const input = readOptions(startOptions, [], {});

  expect([input.must('host'), input.must('port')]).toEqual(['127.0.0.1', '8787']);
  expect(input.must('max-body-bytes')).toBe(String(4 * 1024 * 1024));
  expect(input.flag('demo')).toBe(false);
});

describe('a file that an option names and that cannot be read is reported with a remedy:', () => {
  const onLinux = { name: 'latchkey', platform: 'linux' } as const;
  const copy = (user: string, file: string) =>
    `copy it to a folder of that user, and delete the copy afterwards: sudo install -o ${user} -m 0600 ${file} FOLDER`;
  const hidden = { name: 'the file of x-key', hint: 'give a file' };
  test.each<[string, string, object, Parameters<typeof unreadable>[2], string, string | undefined]>(
    [
      [
        'no permission',
        'EACCES',
        { file: '/home/dana/people.csv' },
        onLinux,
        '--from /home/dana/people.csv cannot be read: this command runs as the user latchkey, who may not read it',
        copy('latchkey', '/home/dana/people.csv'),
      ],
      [
        'no permission, in a folder with blanks in its name',
        'EPERM',
        { file: "/home/dana/Dana's files/people.csv" },
        onLinux,
        "--from /home/dana/Dana's files/people.csv cannot be read: this command runs as the user latchkey, who may not read it",
        copy('latchkey', String.raw`'/home/dana/Dana'\''s files/people.csv'`),
      ],
      [
        'no permission, for a user without a name',
        'EACCES',
        { file: '/p' },
        { name: undefined, platform: 'linux' },
        '--from /p cannot be read: this command runs as a user who may not read it',
        copy('USER', '/p'),
      ],
      [
        'no permission, on Windows',
        'EACCES',
        { file: '/p' },
        { name: 'dana', platform: 'win32' },
        '--from /p cannot be read: this command runs as the user dana, who may not read it',
        'let that user read the file',
      ],
      [
        'no permission for a file whose name may be a secret',
        'EACCES',
        { file: '/secret', instead: hidden },
        onLinux,
        '--from: the file of x-key cannot be read: this command runs as the user latchkey, who may not read it',
        copy('latchkey', 'FILE'),
      ],
      [
        'a relative path that leads nowhere',
        'ENOENT',
        { file: '~/people.csv' },
        onLinux,
        '--from ~/people.csv does not exist',
        `the path leads to ${resolve('~/people.csv')}`,
      ],
      [
        'an absolute path that leads nowhere',
        'ENOTDIR',
        { file: '/p/q' },
        onLinux,
        '--from /p/q does not exist',
        'check the path',
      ],
      [
        'a folder',
        'EISDIR',
        { file: '/p' },
        onLinux,
        '--from /p is a folder, not a file',
        'name a file',
      ],
      [
        'another fault',
        'EIO',
        { file: '/p' },
        onLinux,
        '--from /p cannot be read (EIO)',
        undefined,
      ],
    ],
  )('%s', (_, code, named, runsAs, message, hint) => {
    const cause = Object.assign(new Error('no'), { code });

    expect(unreadable({ option: 'from', file: '', ...named }, cause, runsAs)).toMatchObject({
      message,
      hint,
    });
  });
});
