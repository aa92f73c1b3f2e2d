import { expect, test } from 'vitest';
import { lack } from '#support/requirements';
import { freePort } from '#support/loopback';

const words = { reason: 'of a test', install: 'none' };

test('requirements: a command in PATH is present', async () => {
  expect(await lack({ ...words, commands: ['sh'] })).toBeUndefined();
});

test('requirements: a command that is not in PATH is reported by name', async () => {
  expect(await lack({ ...words, commands: ['sh', 'no-such-program'] })).toBe(
    `no 'no-such-program' in PATH`,
  );
});

test('requirements: an address without a listener is reported', async () => {
  const port = await freePort();
  const address = { host: '127.0.0.1', port };

  expect(await lack({ ...words, address })).toBe(`nothing listens on 127.0.0.1:${port}`);
});

test('requirements: one of several commands between bars is enough', async () => {
  expect(await lack({ ...words, commands: ['no-such-program|sh'] })).toBeUndefined();
  expect(await lack({ ...words, commands: ['no-such-program|nor-this'] })).toBe(
    `no 'no-such-program|nor-this' in PATH`,
  );
});
