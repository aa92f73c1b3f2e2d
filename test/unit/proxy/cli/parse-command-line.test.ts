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
])('%j connects to acme', (words, options) => {
  const asked = parseCommandLine(words);

  expect(asked).toMatchObject({
    command: { name: 'connect' },
    input: { operands: ['acme'], options },
  });
});

test('connect is also a name', () => {
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
])('%j is wrong usage', (words) => {
  expect(() => parseCommandLine(words)).toThrow(UsageError);
});

test('the command line wins over the environment, the environment over the default', () => {
  const env = { LATCHKEY_LOG_LEVEL: 'debug', LATCHKEY_SECRET_STORE: '' };

  expect(readOptions({}, env)).toMatchObject({ logLevel: 'debug', secretStore: 'os' });
  expect(readOptions({ 'log-level': 'error' }, env)).toMatchObject({ logLevel: 'error' });
});

test.each([
  [{ 'log-level': 'loud' }],
  [{ 'secret-store': 'paper' }],
  [{ 'secret-store': 'file' }],
  [{ 'max-message-bytes': 'many' }],
])('%j is wrong usage', (given) => {
  expect(() => readOptions(given, {})).toThrow(UsageError);
});

test.each(
  commands
    .filter(({ name, hidden }) => name !== 'connect' && !hidden)
    .map((about) => [about.name, about]),
)('%s has help of its own, on one screen and with examples', (name, about) => {
  const text = help(about);

  expect(parseCommandLine([name, 'acme', '--help'])).toEqual({ ask: 'help', about });
  expect(text.split('\n').length).toBeLessThan(40);
  expect(text.match(new RegExp(`^  .*latchkey ${name}`, 'gm'))?.length).toBeGreaterThanOrEqual(2);
});

test('the flag of one command belongs to no other', () => {
  expect(() => parseCommandLine(['acme', '--json'])).toThrow('--json does not belong to latchkey');
  expect(() => parseCommandLine(['status', '--json=yes'])).toThrow('--json takes no value');
});

test('help is asked for in four ways, and a server may be called so', () => {
  for (const words of [['--help'], ['-h'], ['acme', '-h'], ['help']])
    expect(parseCommandLine(words)).toEqual({ ask: 'help', about: undefined });
  expect(parseCommandLine(['connect', 'help'])).toMatchObject({ input: { operands: ['help'] } });
});

test('help fits a screen and knows every option', () => {
  expect(help().split('\n').length).toBeLessThan(40);
  for (const name of optionNames) expect(help()).toContain(`--${name}`);
  expect(help()).toContain('examples:');
  for (const name of optionNames)
    expect(help(commands.find((one) => one.name === 'connect'))).toMatch(
      new RegExp(`--${name} [^]*LATCHKEY_`),
    );
});
