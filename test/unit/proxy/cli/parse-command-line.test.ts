import { expect, test } from 'vitest';
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
  expect(parseCommandLine(words)).toEqual({ command: 'connect', target: 'acme', options });
});

test('connect is also a name', () => {
  expect(parseCommandLine(['connect', 'connect'])).toMatchObject({ target: 'connect' });
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

test.each(['login', 'logout', 'status'] as const)(
  '%s has help of its own, with examples',
  (about) => {
    const text = help(about);

    expect(parseCommandLine([about, 'acme', '--help'])).toEqual({ command: 'help', about });
    expect(text.split('\n').length).toBeLessThan(25);
    expect(text.match(new RegExp(`^  latchkey ${about}`, 'gm'))).toHaveLength(2);
  },
);

test('help is asked for in four ways, and a server may be called so', () => {
  for (const words of [['--help'], ['-h'], ['acme', '-h'], ['help']])
    expect(parseCommandLine(words)).toEqual({ command: 'help' });
  expect(parseCommandLine(['connect', 'help'])).toMatchObject({ target: 'help' });
});

test('help fits a screen and knows every option', () => {
  expect(help().split('\n').length).toBeLessThan(40);
  for (const name of optionNames) expect(help()).toContain(`--${name}`);
  expect(help()).toContain('examples:');
});
