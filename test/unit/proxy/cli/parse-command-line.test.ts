import { expect, test } from 'vitest';
import { refuseCommandName } from '#proxy/cli/add';
import { allCommands, findCommand, meantCommand } from '#proxy/cli/commands';
import { findConnection } from '#proxy/cli/connect';
import { help } from '#proxy/cli/help';
import { parseCommandLine } from '#proxy/cli/parse-command-line';
import { ConfigurationError, UsageError } from '#proxy/config/errors';
import { declarations, optionNames, readOptions } from '#proxy/config/options';

test.each([
  [['acme'], {}],
  [['connect', 'acme'], {}],
  [['acme', '--config', 'f'], { config: 'f' }],
  [['--config=f=g', 'acme'], { config: 'f=g' }],
])('command line: %j connects to acme', async (words, options) => {
  const asked = await parseCommandLine(words);

  expect(asked).toMatchObject({
    command: { name: 'connect' },
    input: { operands: ['acme'], options },
  });
});

test('command line: connect is also a valid connection name', async () => {
  expect(await parseCommandLine(['connect', 'connect'])).toMatchObject({
    input: { operands: ['connect'] },
  });
});

test.each([
  [[]],
  [['connect']],
  [['a', 'b']],
  [['a', '--nope']],
  [['a', '--config']],
  [['a', '--config=']],
])('command line: %j is a usage error', async (words) => {
  await expect(parseCommandLine(words)).rejects.toThrow(UsageError);
});

test('options: the command line takes precedence over the environment, and the environment over the default', () => {
  const env = { LATCHKEY_LOG_LEVEL: 'debug', LATCHKEY_SECRET_STORE: '' };

  expect(readOptions({}, env)).toMatchObject({ logLevel: 'debug', secretStore: 'os' });
  expect(readOptions({ 'log-level': 'error' }, env)).toMatchObject({ logLevel: 'error' });
});

test.each([
  [{ 'log-level': 'loud' }],
  [{ 'secret-store': 'paper' }],
  [{ 'secret-store': 'file' }],
  [{ 'max-message-bytes': 'many' }],
])('options: %j is a usage error', (given) => {
  expect(() => readOptions(given, {})).toThrow(UsageError);
});

test.each(
  (await allCommands())
    .filter(({ name, hidden }) => name !== 'connect' && !hidden)
    .map((about) => [about.name, about]),
)('help: that of %s fits on one screen and has examples', async (name, about) => {
  const text = await help(about);

  expect(await parseCommandLine([...name.split(' '), 'acme', '--help'])).toEqual({
    ask: 'help',
    about,
  });
  expect(await parseCommandLine(['help', ...name.split(' ')])).toEqual({ ask: 'help', about });
  expect(text.split('\n').length).toBeLessThan(40);
  expect(text.match(new RegExp(`^  .*latchkey ${name}`, 'gm'))?.length).toBeGreaterThanOrEqual(2);
});

test('command line: an option of one command is refused by the others', async () => {
  await expect(parseCommandLine(['acme', '--json'])).rejects.toThrow(
    'latchkey connect has no option --json',
  );
  await expect(parseCommandLine(['status', '--json=yes'])).rejects.toThrow('--json takes no value');
});

test('help: three ways request it, and it is still a valid connection name', async () => {
  for (const words of [['--help'], ['-h'], ['help']])
    expect(await parseCommandLine(words)).toEqual({ ask: 'help', about: undefined });
  expect(await parseCommandLine(['connect', 'help'])).toMatchObject({
    input: { operands: ['help'] },
  });
});

test('help: that of a URL is that of connect', async () => {
  const about = await findCommand('connect');

  expect(await parseCommandLine(['https://b.example/mcp', '--help'])).toEqual({
    ask: 'help',
    about,
  });
});

test('help: it fits on one screen and names every option', async () => {
  const text = await help();
  const ofConnect = await help(await findCommand('connect'));

  expect(text.split('\n').length).toBeLessThan(40);
  for (const name of optionNames) expect(text).toContain(`--${name}`);
  expect(text).toContain('examples:');
  for (const name of optionNames) expect(ofConnect).toMatch(new RegExp(`--${name} [^]*LATCHKEY_`));
});

test('help: no placeholder is a single letter', async () => {
  const commands = await allCommands();
  const values = commands.flatMap(({ flags }) => Object.values(flags).map(({ value }) => value));
  const all = [...values, ...Object.values(declarations).map(({ value }) => value)];

  expect(all.filter((value) => value !== undefined && /^[A-Z]$/.test(value))).toEqual([]);
});

test.each([
  [['--idle-timeout', '7'], {}],
  [['--patience=7'], {}],
  [[], { LATCHKEY_IDLE_TIMEOUT: '7', LATCHKEY_PATIENCE: '8' }],
  [[], { LATCHKEY_PATIENCE: '7' }],
])('idle timeout: %j with the environment %j is 7 seconds', async (words, env) => {
  const asked = await parseCommandLine(['sales', ...words]);
  const given = asked.ask === 'run' ? asked.input.options : {};

  expect(readOptions(given, env)).toMatchObject({ idleTimeoutSeconds: 7 });
});

test.each([
  [['acme', '--urll'], 'unknown option --urll', 'latchkey help lists the commands'],
  [['acme', '--confg', 'x'], 'unknown option --confg', 'did you mean --config?'],
  [['add', 'a', 'https://b.example', '--clientid=x'], '--clientid', 'did you mean --client-id?'],
  [['statsu', '--json'], 'has no option --json', 'did you mean latchkey status?'],
  [['statsu', 'acme'], 'unknown command statsu', 'did you mean latchkey status?'],
  [['agent', 'instal'], 'unknown command', 'did you mean latchkey agent install?'],
  [['agent', 'run'], 'unknown command', 'available commands: login, install, uninstall'],
  [['setup', 'https://b.example', '--api-key', 'mcp_x'], '--api-key takes no value', 'rotate it'],
  [['setup', 'https://b.example', '--api-key=mcp_x'], '--api-key takes no value', 'rotate it'],
  [['setup'], 'latchkey setup needs URL', 'latchkey setup https://'],
  [['help', 'statsu'], 'unknown command statsu', 'did you mean latchkey status?'],
  [['statsu', '--help'], 'unknown command statsu', 'did you mean latchkey status?'],
  [['foo', '-h'], 'unknown command foo', 'latchkey help lists the commands'],
  [['acme', '--help'], 'unknown command acme', 'latchkey connect --help'],
  [['remove', 'sales', '--yes'], 'has no option --yes', 'leave --yes out'],
  [['agent', 'login', '--user'], 'has no option --user', 'latchkey agent install'],
])('command line: %j suggests what was meant', async (words, message, hint) => {
  const error = await parseCommandLine(words).catch((thrown: unknown) => thrown);

  expect(error).toBeInstanceOf(UsageError);
  expect(error).toMatchObject({
    message: expect.stringContaining(message),
    hint: expect.stringContaining(hint),
  });
});

test('command line: a similar command is suggested if there is no connection with that name', async () => {
  const missing = new ConfigurationError([
    { source: '', key: '', problem: 'none', code: 'unknown_name' },
  ]);
  const broken = new ConfigurationError([{ source: 'a.json', key: 'mcpServers.x', problem: 'no' }]);
  const run = async (target: string, error: Error) => {
    const readConnection = async () => {
      throw error;
    };
    return findConnection(target, readOptions({}, {}), { readConnection }, meantCommand).catch(
      (thrown: unknown) => thrown,
    );
  };

  expect(await run('statsu', missing)).toMatchObject({
    message: missing.message,
    hint: 'did you mean latchkey status?',
  });
  expect(await run('acme', missing)).toBe(missing);
  expect(await run('statsu', broken)).toBe(broken);
});

test('command line: an option is not taken as the value of another, unless written as one word', async () => {
  const value = async (...words: string[]) => {
    const asked = await parseCommandLine(['add', 'a', 'https://b.example', ...words]);
    return asked.ask === 'run' ? asked.input.flags.get('scope') : undefined;
  };

  await expect(value('--scope', '--json')).rejects.toThrow(
    '--scope requires a value, but --json is an option',
  );
  await expect(value('--scope', '-secret')).rejects.toThrow('the next word starts with a dash');
  await expect(value('--scope', '-secret')).rejects.not.toThrow('secret');
  expect(await value('--scope=--x')).toEqual(['--x']);
  expect(await value('--scope', 'x', '--scope', '-')).toEqual(['x', '-']);
});

test.each([
  [['status', '--config', 'a', '--config', 'b'], '--config was given twice'],
  [['acme', '--idle-timeout=1', '--patience=2'], '--patience was given twice'],
  [['add', 'a', 'https://b.example', '--grant=x', '--grant=y'], '--grant was given twice'],
])('command line: %j repeats an option that may be given once', async (words, message) => {
  await expect(parseCommandLine(words)).rejects.toThrow(message);
});

test('command line: words after -- are operands', async () => {
  expect(await parseCommandLine(['--', 'status'])).toMatchObject({
    command: { name: 'connect' },
    input: { operands: ['status'] },
  });
  expect(await parseCommandLine(['status', '--', '--json'])).toMatchObject({
    command: { name: 'status' },
    input: { operands: ['--json'], flags: new Map() },
  });
});

test('command line: a subcommand may follow options, and has its own help', async () => {
  const url = ['--server-url', 'https://cloud.example.com'];

  expect(await parseCommandLine(['agent', ...url, 'install', '--user'])).toMatchObject({
    command: { name: 'agent install' },
    input: {
      operands: [],
      flags: new Map([
        ['server-url', [url[1]]],
        ['user', ['']],
      ]),
    },
  });
  expect(await parseCommandLine(['agent', ...url])).toMatchObject({ command: { name: 'agent' } });
});

test('help: every option of every command is described', async () => {
  for (const command of await allCommands())
    for (const line of (await help(command)).split('\n  --').slice(1))
      expect(line).toMatch(/^\S.*\n {6}\S.*[^:\s]/);
});

test.each(['setup', 'help'])(
  'add: a connection cannot be named as the command %s',
  async (name) => {
    const others = { all: allCommands, meant: meantCommand };

    await expect(refuseCommandName(name, others)).rejects.toThrow(`${name} is a command`);
    await expect(refuseCommandName('sales', others)).resolves.toBeUndefined();
  },
);

test.each([
  [['completion', 'bash', 'x'], 'too many arguments', 'latchkey completion --help shows more'],
  [['status', 'a', 'b'], 'enter one server only; 2 given', 'latchkey status --help shows more'],
  [['devices', '--sign-out'], '--sign-out requires a value', 'latchkey devices --help shows more'],
])('command line: %j is refused with what to look at', async (words, message, hint) => {
  await expect(parseCommandLine(words)).rejects.toMatchObject({ message, hint });
});

test('command line: help about help is that of all commands', async () => {
  expect(await parseCommandLine(['help', 'help'])).toEqual({ ask: 'help', about: undefined });
});

test.each(['version', 'versoin'])('command line: %s is answered with --version', (word) => {
  expect(meantCommand(word)).toBe('did you mean latchkey --version?');
});
