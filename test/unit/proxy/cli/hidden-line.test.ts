import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { hiddenLine } from '#proxy/cli/hidden-line';

/** A terminal, or a pipe, in which `typed` was entered. */
async function entered(typed: string, isTTY: boolean) {
  const input = Object.assign(new PassThrough(), { isTTY, setRawMode: () => undefined });
  const output = new PassThrough();
  const line = hiddenLine('API key', Object.assign(Object.create(process.stdin), input), output);
  input.end(typed);
  return { line: await line.catch((error: unknown) => error), shown: String(output.read() ?? '') };
}

test.each([
  [true, 'API key: \n'],
  [false, ''],
])('hidden line: nothing that is typed is shown (terminal: %s)', async (isTTY, shown) => {
  expect(await entered('secret\n', isTTY)).toEqual({ line: 'secret', shown });
});

test('hidden line: Ctrl-C cancels', async () => {
  const { line } = await entered('sec\u0003', true);

  expect(line).toMatchObject({ name: 'UsageError', message: 'cancelled', hint: '' });
});
