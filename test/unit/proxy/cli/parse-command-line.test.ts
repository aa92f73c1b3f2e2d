import { expect, test } from 'vitest';
import { commands } from '#proxy/cli/commands';
import { help } from '#proxy/cli/help';
import { parseCommandLine } from '#proxy/cli/parse-command-line';
import { optionNames, readOptions } from '#proxy/config/options';
import { UsageError } from '#proxy/config/usage-error';

test.each([
  [['acme'], {}],
  [['connect', 'acme'], {}],
  [['acme', '--config', 'f'], { config: 'f' }],
  [['--config=f=g', 'acme'], { config: 'f=g' }],
])('command line: %j connects to acme', (words, options) => {
  const asked = parseCommandLine(words);

  expect(asked).toMatchObject({
    command: { name: 'connect' },
    input: { operands: ['acme'], options },
  });
});

test('command line: connect is also a valid connection name', () => {
  expect(parseCommandLine(['connect', 'connect'])).toMatchObject({
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
])('command line: %j is a usage error', (words) => {
  expect(() => parseCommandLine(words)).toThrow(UsageError);
});

test('options: the command line wins over the environment, and the environment over the default', () => {
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
  commands
    .filter(({ name, hidden }) => name !== 'connect' && !hidden)
    .map((about) => [about.name, about]),
)('help: %s has its own, on one screen and with examples', (name, about) => {
  const text = help(about);

  expect(parseCommandLine([name, 'acme', '--help'])).toEqual({ ask: 'help', about });
  expect(text.split('\n').length).toBeLessThan(40);
  expect(text.match(new RegExp(`^  .*latchkey ${name}`, 'gm'))?.length).toBeGreaterThanOrEqual(2);
});

test('command line: an option of one command is refused by the others', () => {
  expect(() => parseCommandLine(['acme', '--json'])).toThrow('--json does not belong to latchkey');
  expect(() => parseCommandLine(['status', '--json=yes'])).toThrow('--json takes no value');
});

test('help: requested in four ways, and still a valid connection name', () => {
  for (const words of [['--help'], ['-h'], ['acme', '-h'], ['help']])
    expect(parseCommandLine(words)).toEqual({ ask: 'help', about: undefined });
  expect(parseCommandLine(['connect', 'help'])).toMatchObject({ input: { operands: ['help'] } });
});

test('help: fits one screen and names every option', () => {
  expect(help().split('\n').length).toBeLessThan(40);
  for (const name of optionNames) expect(help()).toContain(`--${name}`);
  expect(help()).toContain('examples:');
  for (const name of optionNames)
    expect(help(commands.find((one) => one.name === 'connect'))).toMatch(
      new RegExp(`--${name} [^]*LATCHKEY_`),
    );
});

test.each([
  [['--idle-timeout', '7'], {}],
  [['--patience=7'], {}],
  [[], { LATCHKEY_IDLE_TIMEOUT: '7', LATCHKEY_PATIENCE: '8' }],
  [[], { LATCHKEY_PATIENCE: '7' }],
])('idle timeout: %j with the environment %j is 7 seconds', (words, env) => {
  const asked = parseCommandLine(['sales', ...words]);
  const given = asked.ask === 'run' ? asked.input.options : {};

  expect(readOptions(given, env)).toMatchObject({ idleTimeoutSeconds: 7 });
});
