import { describe, expect, test } from 'vitest';
import { commands } from '#server/cli/commands';
import { checkPositionals, findCommand } from '#server/cli/find-command';
import { commandHelpText, helpText, nounHelpText, startHelpText } from '#server/cli/help';
import { startOptions } from '#server/config/option';
import { UsageError } from '#server/config/usage-error';

test('every command is found by its words, and the rest are its arguments', () => {
  for (const command of commands) {
    const argv = [...command.words.split(' '), 'acme', '--json'];

    expect(findCommand(argv)).toEqual({ command, rest: ['acme', '--json'] });
  }
});

test('all commands of the contract exist', () => {
  expect(commands.map(({ words }) => words)).toEqual(
    expect.arrayContaining([
      'organization create',
      'server create',
      'agent create',
      'client create',
      'key create',
      'backup',
      'restore',
      ...['client', 'key', 'agent'].flatMap((noun) => [`${noun} list`, `${noun} revoke`]),
    ]),
  );
});

test('every command has --json', () => {
  const without = commands.filter(({ options }) => !options.some(({ name }) => name === 'json'));

  expect(without).toEqual([]);
});

describe('an unknown command is wrong usage, with a hint', () => {
  test.each([
    [['nonsense'], "'nonsense' is not a command", 'latchkey-server help lists the commands'],
    [['clients'], "'clients' is not a command", 'did you mean latchkey-server client?'],
    [['agents', 'list'], "'agents' is not a command", 'did you mean latchkey-server agent list?'],
    [['agnet', 'lst'], "'agnet' is not a command", 'did you mean latchkey-server agent list?'],
    [
      ['agent', 'crate'],
      "'agent crate' is not a command",
      'did you mean latchkey-server agent create?',
    ],
    [['bakcup', 'f'], "'bakcup' is not a command", 'did you mean latchkey-server backup?'],
    [['strat'], "'strat' is not a command", 'did you mean latchkey-server start?'],
    [[], "'' is not a command", 'latchkey-server help lists the commands'],
    [
      ['client', 'delete'],
      "'client delete' is not a command",
      'available commands: client create, client list, client update, client rotate, client revoke, client create-for-organization',
    ],
    [
      ['client'],
      'client needs a command',
      'available commands: client create, client list, client update, client rotate, client revoke, client create-for-organization',
    ],
  ])('%j', (argv, message, hint) => {
    expect(() => findCommand(argv)).toThrow(
      expect.objectContaining({ name: 'UsageError', message, hint }),
    );
  });
});

test('one argument too few or too many is wrong usage that shows the right usage', () => {
  const { command } = findCommand(['key', 'create']);

  expect(() => checkPositionals(command, [])).toThrow(
    new UsageError('ORG/SERVER is missing', 'latchkey-server key create ORG/SERVER'),
  );
  expect(() => checkPositionals(command, ['a/b', 'c'])).toThrow(
    new UsageError("unexpected argument 'c'", 'latchkey-server key create ORG/SERVER'),
  );
  expect(() => checkPositionals(command, ['a/b'])).not.toThrow();
});

test('the help names every command and every option', () => {
  const page = helpText('1.2.3');

  expect(page).toContain('latchkey-server 1.2.3');
  expect(startHelpText()).toContain('--port PORT');
  for (const command of commands) {
    expect(page).toContain(`  ${[command.words, ...command.positionals].join(' ')}`);
    for (const { name } of command.options) {
      expect(commandHelpText(command, [])).toContain(`--${name}`);
    }
  }
});

test('the help of a noun lists only its commands, and no other word has one', () => {
  const page = nounHelpText('key') ?? '';

  expect(page.match(/^ {2}\w+ \w+/gm)).toEqual([
    '  key create',
    '  key list',
    '  key update',
    '  key rotate',
    '  key revoke',
  ]);
  expect([nounHelpText('keys'), nounHelpText('backup')]).toEqual([undefined, undefined]);
});

test('the help of a command names its required options', () => {
  const { command } = findCommand(['key', 'create']);

  expect(commandHelpText(command, [])).toMatch(/--name NAME .*\(required\)/);
});

test('no placeholder in the help is a single letter', () => {
  const options = [startOptions, ...commands.map((command) => command.options)].flat();
  const letters = options.filter(({ value }) =>
    value?.split('|').some((word) => /^[A-Z]$/.test(word)),
  );

  expect(letters).toEqual([]);
});

test('the help of server create says that it takes exactly one upstream', () => {
  const { command } = findCommand(['server', 'create']);

  expect(commandHelpText(command, [])).toContain(
    'exactly one of --http-url URL, --agent NAME, --demo',
  );
});
