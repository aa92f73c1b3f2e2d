import { expect, test } from 'vitest';
import { lack } from '#support/requirements';
import { freePort } from '#support/loopback';

const words = { reason: 'of a test', install: 'none' };

test('a command in PATH is not lacking', async () => {
  expect(await lack({ ...words, commands: ['sh'] })).toBeUndefined();
});

test('a command that is not in PATH is named', async () => {
  expect(await lack({ ...words, commands: ['sh', 'no-such-program'] })).toBe(
    `no 'no-such-program' in PATH`,
  );
});

test('a port where nobody listens is named', async () => {
  const port = await freePort();

  expect(await lack({ ...words, port })).toBe(`nothing listens on 127.0.0.1:${port}`);
});
